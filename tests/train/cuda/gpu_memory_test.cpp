// Whenever a GPU has no memory left during a training step: one clear error, nothing is lost, and
// the step can be repeated. A lost device is an error, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/loss.h"
#include "support/device_memory.h"
#include "support/errors.h"
#include "support/gpu_training.h"
#include "support/host_cudart.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/async_copy.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_graph.h"
#include "train/ema.h"

namespace rondo::train {
namespace {

using test::image_batch;
using test::network;
using test::optimizer_of;
using test::SimulatedGpus;
using ::testing::HasSubstr;

/// A model, its optimizer and steps with batches 0, 1, …
struct Training {
  Training(int kind, bool graph)
      : model(network(0)),
        optimizer((test::set_weights(model, 3), model.to(gpu), optimizer_of(kind, model))),
        step({.model = model, .optimizer = *optimizer, .graph = graph}) {}
  void run(int k) {
    const data::Batch batch = image_batch(k);
    step({batch.input.to(gpu), batch.target.to(gpu)}, {});
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (const Tensor& p : model.parameters())
      for (float x : p.detach().to(Device::cpu()).to_vector()) all.push_back(x);
    return all;
  }
  const Device gpu = Device::cuda(0);
  nn::Sequential model;
  std::unique_ptr<optim::Optimizer> optimizer;
  TrainStep step;
};

class GpuOutOfMemory : public ::testing::TestWithParam<int> {
 protected:
  GpuOutOfMemory() { cuda::set_deterministic(true); }
  ~GpuOutOfMemory() override {
    test::set_allocations_left(std::nullopt);
    test::set_sticky_error(cudaSuccess);
    cuda::set_deterministic(false);
  }
  /// Fails each allocation of step `last` in turn. Returns how many allocations it has.
  static int walk(int kind, bool graph, int last) {
    const std::vector<float> want = [&] {
      Training good(kind, graph);
      for (int k = 0; k <= last; ++k) good.run(k);
      return good.weights();
    }();
    for (int n = 0;; ++n) {
      SCOPED_TRACE(concat("allocation ", n));
      Training training(kind, graph);
      for (int k = 0; k < last; ++k) training.run(k);
      const std::vector<float> before = training.weights();
      const data::Batch batch = image_batch(last);
      const data::Batch there{batch.input.to(training.gpu), batch.target.to(training.gpu)};
      std::string error;
      test::set_allocations_left(n);
      try {
        training.step(there, {});
      } catch (const OutOfMemoryError& thrown) {
        error = thrown.what();
      }
      test::set_allocations_left(std::nullopt);
      if (error.empty()) {
        EXPECT_EQ(training.weights(), want);
        return n;
      }
      EXPECT_THAT(error, HasSubstr("cuda:0 is out of memory: cannot allocate "));
      EXPECT_EQ(training.weights(), before) << "all parameters are updated, or none";
      training.run(last);
      EXPECT_EQ(training.weights(), want);
      if (HasFailure()) return n;
    }
  }
};

TEST_P(GpuOutOfMemory, AStepWithoutMemoryCanBeRepeated) {
  const SimulatedGpus gpus;
  for (const int last : {0, 1}) {  // the first step also makes the optimizer's state
    cuda::synchronize(0);
    const std::size_t before = test::device_blocks_in_use();
    EXPECT_GT(walk(GetParam(), false, last), 30);
    cuda::synchronize(0);
    EXPECT_EQ(test::device_blocks_in_use(), before) << "memory was lost";
  }
}

TEST_P(GpuOutOfMemory, ACaptureWithoutMemoryCanBeRepeated) {
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  EXPECT_GT(walk(GetParam(), true, 3), 0);  // three steps, then the capture
}

// After some errors of a kernel every later call fails.
TEST_P(GpuOutOfMemory, ALostDeviceIsAnErrorAndDestructorsDoNotThrow) {
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  for (const bool graph : {false, true}) {
    std::optional<Training> training(std::in_place, GetParam(), graph);
    for (int k = 0; k < 5; ++k) training->run(k);
    const cuda::Stream side = cuda::Stream::create(0);
    Tensor shared = ones({4}, {.device = training->gpu});
    cuda::record_stream(shared, side);
    std::optional<AsyncCopy> copy(shared);
    const Ema ema(training->model, 0.9);
    std::optional<Ema::Applied> applied(std::in_place, ema);
    test::set_sticky_error(cudaErrorIllegalAddress);
    EXPECT_ERROR(training->run(5), CudaError, "an illegal memory access was encountered");
    EXPECT_ERROR(copy->get(), CudaError, "an illegal memory access was encountered");
    copy.reset();
    applied.reset();
    shared = Tensor();
    training.reset();
    test::set_sticky_error(cudaSuccess);
  }
  cuda::synchronize(0);
}

// 2,100 x 2,100 scores would need 8.8 MB in bf16.
TEST(GpuAttention, KeepsNoScoresOfLongSequences) {
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  const Tensor x = randn({1, 2100, 2}, {.dtype = bf16, .device = Device::cuda(0)});
  x.requires_grad_();
  const std::size_t before = cuda::memory_stats().in_use;
  const Tensor y = scaled_dot_product_attention(x, x, x, {.is_causal = true});
  EXPECT_LT(cuda::memory_stats().in_use - before, std::size_t{2} << 20);
  y.backward(ones_like(y));
  const Tensor wide = x.detach().to(Device::cpu()).to(f32).requires_grad_();
  const Tensor want = scaled_dot_product_attention(wide, wide, wide, {.is_causal = true});
  want.backward(ones_like(want));
  // Weights and results are rounded to bf16; a result is an average of values up to 5.
  EXPECT_TRUE(test::all_close(y.detach().to(Device::cpu()).to(f32), want.detach(), 5 * 0x1p-7));
  const double largest = wide.grad().abs().max().item<double>();
  EXPECT_TRUE(test::all_close(x.grad().to(Device::cpu()).to(f32), wide.grad(), largest * 0x1p-6));
}

// No scores are kept. Those of 512 tokens and 8 heads would need 8 MiB.
TEST(GpuAttention, NeedsMemoryLinearInTheLength) {
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  const auto peak_of = [](std::int64_t length) {
    const Tensor x = randn({1, 8, length, 8}, {.device = Device::cuda(0)}).requires_grad_();
    cuda::reset_peak_memory();
    const std::size_t before = cuda::memory_stats().in_use;
    scaled_dot_product_attention(x, x, x, {.is_causal = true}).sum().backward();
    return static_cast<double>(cuda::memory_stats().peak - before);
  };
  const double bytes = peak_of(256), twice = peak_of(512);
  EXPECT_LT(twice, 2.5 * bytes);
  EXPECT_LT(twice, 2 << 20);
}

// Backward draws the dropped weights again: in a replay, with the numbers of that replay.
// bf16 without dropout is cuDNN's.
void expect_captured(const Dims& shape, DType dtype, double dropout_p) {
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  const Tensor x = randn(shape, {.device = Device::cuda(0)}).to(dtype);
  x.requires_grad_();
  const Tensor gradient = zeros_like(x);
  const auto step = [&] {
    const Tensor y = scaled_dot_product_attention(x, x, x, {.dropout_p = dropout_p});
    gradient.copy_(grad({(y * y).sum()}, {x})[0]);
  };
  const Tensor first = x.detach().clone();
  const auto set_input = [&](int i) { x.detach().copy_(first * (i + 1)); };
  std::vector<Tensor> eager;
  manual_seed(4);
  for (int i = 0; i < 3; ++i) {
    set_input(i);
    step();
    eager.push_back(gradient.to(Device::cpu()));
  }
  manual_seed(4);
  cuda::Graph graph(Device::cuda(0));
  graph.capture(step);
  for (int i = 0; i < 3; ++i) {
    set_input(i);
    graph.replay();
    EXPECT_TRUE(test::identical(gradient.to(Device::cpu()), eager[i])) << "replay " << i;
  }
}

TEST(GpuAttention, CanBeCaptured) {
  expect_captured({3, 9, 4}, f32, 0.3);
  expect_captured({2, 128, 8}, bf16, 0);
}

INSTANTIATE_TEST_SUITE_P(SgdAndAdam, GpuOutOfMemory, ::testing::Values(0, 1));

}  // namespace
}  // namespace rondo::train
