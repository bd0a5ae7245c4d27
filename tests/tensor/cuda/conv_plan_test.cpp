// Asks the real cuDNN for plans for every convolution of the ResNets, on a GPU that is only
// described. Without a GPU the plans are not executed.

#include "tensor/cuda/conv_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "autograd/ops/activation.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/reduce.h"
#include "nn/models/models.h"
#include "support/described_gpu.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/measured_plans.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/runtime.h"

namespace rondo::cuda {
namespace {

using test::SimulatedGpus;

/// Records the convolutions and computes none.
class Notebook final : public CudaBackend {
 public:
  Notebook() : CudaBackend(0) {}
  Allocator& allocator() override { return test::host_allocator(0); }
  void do_conv2d(const Tensor& x, const Tensor& w, const Tensor&, const Tensor& y,
                 const Conv2dParams& params) override {
    note(ConvPass::forward, x, w, y, params);
    fill(y, 0);
  }
  void do_conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                const Conv2dParams& params) override {
    note(ConvPass::backward_input, dx, w, dy, params);
    fill(dx, 0);
  }
  void do_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor&,
                                 const Conv2dParams& params) override {
    note(ConvPass::backward_weight, x, dw, dy, params);
    fill(dw, 0);
  }
  std::vector<ConvProblem> problems() const {
    std::vector<ConvProblem> all;
    for (const auto& [key, problem] : noted_) all.push_back(problem);
    return all;
  }

 private:
  void note(ConvPass pass, const Tensor& x, const Tensor& w, const Tensor& y,
            const Conv2dParams& params) {
    const ConvProblem p{.pass = pass,
                        .dtype = x.dtype(),
                        .x = x.shape(),
                        .w = w.shape(),
                        .y = y.shape(),
                        .params = params};
    noted_[p.key()] = p;
  }
  std::map<std::vector<std::int64_t>, ConvProblem> noted_;
};

class ConvPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    h100 = test::described_h100(why);
    if (!h100) GTEST_SKIP() << why;
  }
  std::vector<CudnnPlan> plans(const ConvProblem& p, std::size_t limit = 100) {
    return conv_plans(p, {.properties = &*h100}, limit);
  }
  /// Every convolution of a training step of the model, on `batch` images of size x size pixels.
  static std::vector<ConvProblem> problems_of(const char* name, std::int64_t size,
                                              std::int64_t batch) {
    SimulatedGpus gpus;
    Notebook notebook;
    Backend* before = set_backend(Device::cuda(0), &notebook);
    nn::AnyModule model =
        nn::make_model(name, {.stem = size > 32 ? nn::Stem::imagenet : nn::Stem::cifar});
    model.to(Device::cuda(0));
    model(zeros({1, 3, size, size}, {.device = Device::cuda(0)})).sum().backward();
    set_backend(Device::cuda(0), before);
    std::vector<ConvProblem> problems = notebook.problems();
    for (ConvProblem& p : problems) p.x[0] = p.y[0] = batch;
    return problems;
  }
  std::optional<Descriptor> h100;
};

/// A 3x3 convolution of 64 channels.
ConvProblem example(DType dtype) {
  return {.pass = ConvPass::backward_weight,
          .dtype = dtype,
          .x = {32, 64, 16, 16},
          .w = {64, 64, 3, 3},
          .y = {32, 64, 16, 16},
          .params = {.pad_h = 1, .pad_w = 1}};
}

TEST_F(ConvPlans, ThereAreSomeForEveryLayerOfTheResNets) {
  struct Case {
    const char* model;
    std::int64_t size, batch;
    std::size_t convolutions;
  };
  // The three passes of each layer shape, except the input gradient of the first layer.
  for (const Case& c : {Case{"resnet20", 32, 128, 6 * 3 - 1}, Case{"resnet18", 32, 512, 11 * 3 - 1},
                        Case{"resnet50", 224, 256, 23 * 3 - 1}}) {
    const std::vector<ConvProblem> problems = problems_of(c.model, c.size, c.batch);
    EXPECT_EQ(problems.size(), c.convolutions) << c.model;
    for (ConvProblem p : problems) {
      for (DType dtype : {bf16, f16, f32}) {
        p.dtype = dtype;
        const CudnnPlan best = std::move(plans(p, 1)[0]);
        EXPECT_LT(best.workspace, std::int64_t{4} << 30);
        // For the stem cuDNN pads the 3 channels to 8 in the workspace, or uses no tensor cores.
        if (p.x[1] == 3) continue;
        EXPECT_EQ(best.tensor_cores, dtype != f32)
            << c.model << ' ' << dtype << ' ' << p.x << ' ' << p.w;
        // Room for a copy of an activation means that it is transposed first.
        if (p.pass != ConvPass::backward_weight) {
          EXPECT_LT(best.workspace, std::min(numel_of(p.x), numel_of(p.y)) * size_of(dtype))
              << c.model << ' ' << dtype << ' ' << p.x << ' ' << p.w;
        }
      }
    }
  }
}

// Groups, dilations, odd channels and sizes, images of one row (Conv1d): each pass, each dtype.
TEST_F(ConvPlans, ThereAreSomeForOtherLayers) {
  struct Layer {
    const char* name;
    Dims x, w;
    Conv2dParams params;
  };
  for (const Layer& layer : {
           Layer{"odd", {5, 3, 9, 7}, {5, 3, 3, 2}, {}},
           Layer{"groups", {2, 4, 7, 6}, {6, 2, 3, 2}, {.stride_h = 2, .groups = 2}},
           Layer{"32 groups",
                 {8, 128, 14, 14},
                 {128, 4, 3, 3},
                 {.pad_h = 1, .pad_w = 1, .groups = 32}},
           Layer{"depthwise", {3, 32, 9, 9}, {32, 1, 3, 3}, {.pad_h = 1, .pad_w = 1, .groups = 32}},
           Layer{"depthwise of odd channels", {3, 5, 9, 9}, {10, 1, 3, 3}, {.groups = 5}},
           Layer{"dilated",
                 {2, 16, 20, 20},
                 {16, 16, 3, 3},
                 {.pad_h = 2, .pad_w = 2, .dilation_h = 2, .dilation_w = 2}},
           Layer{"dilated and strided",
                 {2, 4, 13, 12},
                 {6, 4, 3, 2},
                 {.stride_h = 3, .stride_w = 2, .dilation_h = 2, .dilation_w = 3}},
           Layer{"one row", {4, 3, 1, 50}, {7, 3, 1, 5}, {.stride_w = 2, .pad_w = 2}},
           Layer{"large kernel", {2, 3, 40, 40}, {8, 3, 11, 11}, {.stride_h = 4, .stride_w = 4}},
           Layer{"one channel", {2, 1, 28, 28}, {32, 1, 3, 3}, {.pad_h = 1, .pad_w = 1}},
       }) {
    const Conv2dParams& o = layer.params;
    const auto size = [](std::int64_t x, std::int64_t w, std::int64_t pad, std::int64_t stride,
                         std::int64_t dilation) {
      return (x + 2 * pad - dilation * (w - 1) - 1) / stride + 1;
    };
    const Dims y = {layer.x[0], layer.w[0],
                    size(layer.x[2], layer.w[2], o.pad_h, o.stride_h, o.dilation_h),
                    size(layer.x[3], layer.w[3], o.pad_w, o.stride_w, o.dilation_w)};
    for (const bool deterministic : {false, true})
      for (const DType dtype : {f64, f32, bf16, f16})
        for (const ConvPass pass :
             {ConvPass::forward, ConvPass::backward_input, ConvPass::backward_weight})
          EXPECT_NO_THROW(plans({.pass = pass,
                                 .dtype = dtype,
                                 .deterministic = deterministic,
                                 .x = layer.x,
                                 .w = layer.w,
                                 .y = y,
                                 .params = o},
                                1))
              << layer.name << ' ' << dtype << " pass " << static_cast<int>(pass)
              << (deterministic ? " deterministic" : "");
  }
}

// scripts/gpu_check.sh saves the description of a real card.
TEST(ConvPlansHere, ARealCardDescribesItself) {
  if (device_count() == 0) GTEST_SKIP() << why_unavailable();
  const std::string json = to_json(device_properties(0));
  const Descriptor again = device_properties(json);
  EXPECT_EQ(to_json(again), json);
  EXPECT_GE(conv_plans(example(bf16), {.properties = &again}, 1).size(), 1u);
  if (const char* path = std::getenv("RONDO_GPU_PROPERTIES_OUT")) std::ofstream(path) << json;
}

TEST_F(ConvPlans, TensorCoresComputeF32OnlyWhereTf32IsAllowed) {
  ConvProblem p = example(f32);
  for (const CudnnPlan& plan : plans(p)) EXPECT_FALSE(plan.tensor_cores);
  p.tf32 = true;
  EXPECT_TRUE(plans(p)[0].tensor_cores);
}

// With tensor cores cuDNN would need 1.6 GB of workspace here, and it ranks them behind.
TEST_F(ConvPlans, DepthwiseOnesNeedNoWorkspace) {
  for (const ConvPass pass : {ConvPass::forward, ConvPass::backward_input}) {
    const ConvProblem p{.pass = pass,
                        .dtype = bf16,
                        .x = {128, 256, 56, 56},
                        .w = {256, 1, 3, 3},
                        .y = {128, 256, 56, 56},
                        .params = {.pad_h = 1, .pad_w = 1, .groups = 256}};
    EXPECT_EQ(plans(p)[0].workspace, 0);
  }
}

// The best of each engine comes first, since only a few plans are measured.
TEST_F(ConvPlans, MeasuredOnesBeginWithDifferentEngines) {
  ConvProblem p = example(bf16);
  const auto best = [](const std::vector<CudnnPlan>& all) { return all[0].workspace; };
  const std::vector<CudnnPlan> ranked = plans(p);
  p.measured = true;
  const std::vector<CudnnPlan> spread = plans(p);
  EXPECT_EQ(spread.size(), ranked.size());
  EXPECT_EQ(best(spread), best(ranked));
  const auto differ = [](const CudnnPlan& a, const CudnnPlan& b) {
    return a.tensor_cores != b.tensor_cores;
  };
  // The engine without tensor cores, which the heuristics rank behind several of one with them.
  const auto second_kind = [&](const std::vector<CudnnPlan>& all) {
    return std::ranges::adjacent_find(all, differ) - all.begin();
  };
  EXPECT_LE(second_kind(spread), second_kind(ranked));
}

TEST_F(ConvPlans, DeterministicOnesAreAskedFor) {
  bool seen_one_that_is_not = false;
  for (DType dtype : {f32, bf16}) {
    ConvProblem p = example(dtype);
    for (const CudnnPlan& plan : plans(p)) seen_one_that_is_not |= !plan.deterministic;
    p.deterministic = true;
    for (const CudnnPlan& plan : plans(p)) EXPECT_TRUE(plan.deterministic);
  }
  EXPECT_TRUE(seen_one_that_is_not);
}

// Engines for this graph are compiled at run time, which needs a driver.
TEST_F(ConvPlans, TheRealLibraryTakesAGraphWithABias) {
  ConvProblem p = example(bf16);
  p.pass = ConvPass::forward;
  p.bias = true;
  RecordProperty("plans", static_cast<int>(plans(p, 1).size()));
}

class MeasuredBias : public test::MeasuredPlans {
 protected:
  /// A convolution with a bias on a GPU, and the same on the CPU in f32.
  static void expect_as_on_the_cpu(DType dtype, Activation activation = Activation::none) {
    const auto make = [dtype](const Dims& shape, std::uint32_t seed) {
      return test::fill32(shape, seed).to(dtype);
    };
    const Tensor x = make({2, 3, 7, 6}, 0), w = make({8, 3, 3, 3}, 1), bias = make({8}, 2);
    const Conv2dOptions options = {.padding = 1};
    const Tensor expected =
        detail::activated(conv2d(x.to(f32), w.to(f32), bias.to(f32), options), activation);
    for (int step = 0; step < 2; ++step) {  // the first chooses, the second uses the choice
      const Device gpu = Device::cuda(0);
      const Tensor y = conv2d(x.to(gpu), w.to(gpu), bias.to(gpu), options, activation);
      EXPECT_TRUE(test::all_close(y.to(Device::cpu()).to(f32), expected,
                                  test::tolerance(dtype, dtype == f32 ? 28 : 1, 4)));
    }
  }
};

TEST_F(MeasuredBias, IsAddedByTheFasterEngine) {
  for (const DType dtype : {bf16, f16, f32}) {
    favour_cudnn(true);
    expect_as_on_the_cpu(dtype);
    const int trials = executed;
    expect_as_on_the_cpu(dtype);
    EXPECT_EQ(executed, trials + 2);  // one execution for each convolution
    EXPECT_TRUE(std::ranges::count(uids, uid_bias));
  }
}

TEST_F(MeasuredBias, IsAddedAndActivatedByTheFasterEngine) {
  favour_cudnn(true);
  for (const Activation activation : {Activation::relu, Activation::gelu_tanh}) {
    expect_as_on_the_cpu(bf16, activation);
    const int trials = executed;
    expect_as_on_the_cpu(bf16, activation);
    EXPECT_EQ(executed, trials + 2);  // one execution for each convolution
  }
  favour_cudnn(false);
  for (const Activation activation : {Activation::relu, Activation::gelu_tanh})
    expect_as_on_the_cpu(f16, activation);
}

TEST_F(MeasuredBias, IsAKernelWhereThatIsFasterOrNothingIsMeasured) {
  favour_cudnn(false);
  expect_as_on_the_cpu(bf16);
  EXPECT_FALSE(std::ranges::count(uids, uid_bias));
  favour_cudnn(true);
  measure_plans(false);
  expect_as_on_the_cpu(bf16);
  EXPECT_EQ(executed, 2);
  EXPECT_FALSE(std::ranges::count(uids, uid_bias));
}

TEST_F(ConvPlans, OneThatCannotBeIsNamed) {
  ConvProblem p = example(f32);
  p.y[2] = 17;
  EXPECT_ERROR(plans(p), CudaError, "cuDNN: an operation: CUDNN_STATUS_BAD_PARAM (");
  EXPECT_ERROR(plans(example(i64)), DTypeError, "conv2d: no CUDA kernel for i64");
  EXPECT_ERROR(device_properties("{}"), CudaError, "cuDNN: a device's properties");
}

}  // namespace
}  // namespace rondo::cuda
