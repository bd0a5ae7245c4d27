// DataParallel over virtual devices of the CPU, and over simulated GPUs, against the module alone
// with the whole batch.

#include "dist/data_parallel/data_parallel.h"

#include <gmock/gmock.h>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/any_forward.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"

#ifdef RONDO_HAS_CUDA
#include "support/simulated_gpu.h"
#endif
#ifdef RONDO_HAS_NCCL
#include "support/host_nccl.h"
#endif

namespace rondo::dist {

namespace {

using namespace nn;

/// Two layers that share a weight, one that does not, and a parameter, both in containers.
struct Tied : Module {
  Linear a{6, 6}, b{6, 6};
  ModuleDict heads{{"c", Linear(6, 3)}};
  ParameterList scales{Tensors{full({3}, 0.5)}};
  Tied() { b.weight = a.weight; }
  Tensor forward(const Tensor& x) override { return heads["c"](relu(b(relu(a(x))))) * scales[0]; }
  void visit(Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
    v.child("heads", heads);
    v.child("scales", scales);
  }
};

struct Result {
  Tensor output;
  std::vector<Tensor> parameters;
};

Result trained(Module& model, Device input, std::int64_t rows) {
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Tensor y;
  for (int step = 0; step < 3; ++step) {
    Generator generator(40 + static_cast<std::uint64_t>(step));
    const Tensor x = randn({rows, 6}, {.dtype = f64}, generator);
    const Tensor target = randint(0, 3, {rows}, {.dtype = i64}, generator);
    sgd.zero_grad();
    y = model(x.to(input));
    cross_entropy(y, target.to(y.device())).backward();
    sgd.step();
  }
  return {y, model.parameters()};
}

void check_against_one(const std::vector<Device>& devices, Device output) {
  for (std::int64_t rows : {1, 2, 7, 12}) {
    manual_seed(2);
    Tied alone;
    alone.to(f64);
    const Result want = trained(alone, Device::cpu(), rows);
    manual_seed(2);
    DataParallel parallel(Tied{}, devices, output);
    parallel.to(f64);
    parallel.to(devices[0]);
    const Result got = trained(parallel, Device::cpu(), rows);
    EXPECT_EQ(got.output.device(), output);
    EXPECT_TRUE(test::all_close(got.output.to(Device::cpu()), want.output, 1e-12)) << rows;
    ASSERT_EQ(got.parameters.size(), want.parameters.size());
    for (std::size_t i = 0; i < want.parameters.size(); ++i) {
      EXPECT_EQ(got.parameters[i].device(), devices[0]);
      EXPECT_TRUE(test::all_close(got.parameters[i].to(Device::cpu()), want.parameters[i], 1e-12))
          << i;
    }
  }
}

TEST(DataParallel, OverVirtualDevicesIsTheModuleAlone) {
  const Device cpu = Device::cpu();
  check_against_one({cpu}, cpu);
  check_against_one({cpu, cpu}, cpu);
  check_against_one({cpu, cpu, cpu}, cpu);
}

/// Two names for one pointer, and a layer that is replaced.
struct Pointed : Module {
  std::shared_ptr<Linear> a = std::make_shared<Linear>(6, 6), b = a;
  Linear c{6, 3};
  Tensor forward(const Tensor& x) override { return c(relu((*b)(relu((*a)(x))))); }
  void visit(Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
    v.child("c", c);
  }
};

TEST(DataParallel, ReplicasHaveTheirOwnOfWhatAPointerHolds) {
  const Device cpu = Device::cpu();
  const auto made = [] {
    manual_seed(2);
    Pointed model;
    model.set_submodule("c", Sequential(Linear(6, 4), Linear(4, 3)));
    model.to(f64);
    return model;
  };
  Pointed alone = made();
  const Result want = trained(alone, cpu, 7);
  DataParallel parallel(made(), {cpu, cpu, cpu}, cpu);
  const Result got = trained(parallel, cpu, 7);
  EXPECT_TRUE(test::all_close(got.output, want.output, 1e-12));
  ASSERT_EQ(got.parameters.size(), want.parameters.size());
  for (std::size_t i = 0; i < want.parameters.size(); ++i)
    EXPECT_TRUE(test::all_close(got.parameters[i], want.parameters[i], 1e-12)) << i;

  struct Dereferenced : Pointed {
    void visit(Visitor& v) override { v.child("a", *a); }
  };
  DataParallel refused(Dereferenced{}, {cpu, cpu}, cpu);
  EXPECT_ERROR(refused(ones({2, 6})), Error, "the module \"a\" is behind a pointer");
}

TEST(DataParallel, KeysAndStatisticsAreThoseOfPyTorch) {
  const Device cpu = Device::cpu();
  DataParallel parallel(Sequential(Linear(4, 5), BatchNorm1d(5)), {cpu, cpu}, cpu);
  EXPECT_EQ(parallel.state_dict()[0].name, "module.0.weight");
  manual_seed(1);
  const Tensor x = randn({8, 4});
  parallel(x);
  // The running mean is that of device 0, which gets the first half of the batch.
  Sequential& net = parallel.module();
  auto named = net.named_buffers();
  const Tensor running = named[0].tensor;
  const Tensor first = net.named_parameters()[0].tensor;
  const Tensor activation = matmul(x.narrow(0, 0, 4), first.t()) + net.named_parameters()[1].tensor;
  EXPECT_TRUE(test::all_close(running, activation.mean({0}) * 0.1, 1e-6));
  parallel.eval();
  EXPECT_FALSE(net.is_training());
  EXPECT_EQ(parallel(x).shape(), (Dims{8, 5}));
}

TEST(DataParallel, SplitsAllArgumentsAndJoinsAllResults) {
  const Device cpu = Device::cpu();
  const Tensor x = randn({7, 6}), mask = (randn({7, 6}) > 0).to(f32);
  manual_seed(4);
  test::Detector alone;
  manual_seed(4);
  DataParallel parallel(test::Detector{}, {cpu, cpu, cpu}, cpu);
  for (const Tensor& hidden : {mask, Tensor()}) {
    alone.zero_grad();
    parallel.zero_grad();
    const test::Detections want = alone(x, hidden), got = parallel(x, hidden);
    EXPECT_TRUE(test::all_close(got.scores, want.scores, 1e-6));
    EXPECT_TRUE(test::all_close(got.boxes, want.boxes, 1e-6));
    ASSERT_EQ(got.features.size(), 1u);
    EXPECT_TRUE(test::all_close(got.features[0], want.features[0], 1e-6));
    loss_of(want).backward();
    loss_of(got).backward();
    const auto wanted = alone.parameters(), found = parallel.parameters();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(test::all_close(found[i].grad(), wanted[i].grad(), 1e-6)) << i;
  }
  EXPECT_EQ(parallel.named_parameters()[0].name, "module.body.weight");
  EXPECT_ERROR(parallel(x, ones({5, 6})), ShapeError,
               "DataParallel: input [5, 6] has 5 rows, but an input before it has 7");
  EXPECT_ERROR(parallel(Tensor(), Tensor()), ShapeError, "the arguments have no tensor to split");
}

TEST(DataParallel, BadInputIsNamed) {
  const Device cpu = Device::cpu();
  DataParallel parallel(Linear(4, 5), {cpu, cpu}, cpu);
  EXPECT_ERROR(parallel(zeros({0, 4})), ShapeError,
               "DataParallel: input [0, 4] has no rows to split");
  EXPECT_ERROR(DataParallel(Linear(4, 5), std::vector<Device>{}, cpu), DeviceError,
               "DataParallel: the list of devices is empty");
  if (cuda::device_count() == 0) {
    Linear linear(4, 5);
    DataParallel alone{nn::AnyModule(linear)};
    const Tensor x = ones({2, 4});
    EXPECT_EQ(alone(x).to_vector(), linear(x).to_vector());
    EXPECT_ERROR(DataParallel(Linear(4, 5), {.device_ids = {0}}), DeviceError,
                 "device cuda:0 is not available: ");
  }
}

#ifdef RONDO_HAS_CUDA
/// GPUs and, if it is built in, NCCL.
struct Gpus {
  test::SimulatedGpus gpus;
#ifdef RONDO_HAS_NCCL
  Gpus() { set_nccl(&test::host_nccl()); }
  ~Gpus() { set_nccl(nullptr); }
#endif
};

TEST(DataParallel, OverGpusIsTheModuleAlone) {
  const Gpus gpus;
  const Device zero = Device::cuda(0), one = Device::cuda(1), two = Device::cuda(2);
  check_against_one({zero, one}, zero);
  check_against_one({one, zero, two}, two);
  EXPECT_EQ(DataParallel(Linear(4, 5)).devices().size(), 4u);
  EXPECT_ERROR(DataParallel(Linear(4, 5), {.device_ids = {0, 9}}), DeviceError,
               "device cuda:9 does not exist");
  EXPECT_ERROR(DataParallel(Linear(4, 5), {.device_ids = {1, 1}}), DeviceError,
               "DataParallel: device_ids names cuda:1 twice");
  DataParallel parallel(Linear(4, 5), {.device_ids = {1, 0}, .output_device = 0});
  EXPECT_ERROR(
      parallel(zeros({2, 4})), DeviceError,
      "DataParallel: weight is on cpu, but the first device is cuda:1; call to(Device) first");
  parallel.to(one);
  EXPECT_EQ(parallel(zeros({2, 4})).device(), zero);
}

#ifdef RONDO_HAS_NCCL
TEST(DataParallel, NcclBroadcastsAndSums) {
  const Gpus gpus;
  for (std::int64_t rows : {1, 2, 7, 12}) {  // one part, two and three
    manual_seed(2);
    Tied alone;
    alone.to(f64);
    const Result want = trained(alone, Device::cpu(), rows);
    manual_seed(2);
    DataParallel parallel(Tied{}, {.device_ids = {0, 1, 2}});
    EXPECT_TRUE(parallel.uses_nccl());
    parallel.to(f64);
    parallel.to(Device::cuda(0));
    test::nccl_calls("broadcast");
    test::nccl_calls("reduce");
    const Result got = trained(parallel, Device::cpu(), rows);
    // Six parameters on three GPUs in three steps; with fewer rows than devices, parameters are
    // copied.
    EXPECT_EQ(test::nccl_calls("broadcast"), rows < 3 ? 0 : 54);
    EXPECT_EQ(test::nccl_calls("reduce"), rows < 3 ? 0 : 54);
    EXPECT_TRUE(test::all_close(got.output.to(Device::cpu()), want.output, 1e-12)) << rows;
    for (std::size_t i = 0; i < want.parameters.size(); ++i)
      EXPECT_TRUE(test::all_close(got.parameters[i].to(Device::cpu()), want.parameters[i], 1e-12))
          << i;
  }
  EXPECT_THAT(test::nccl_violations(), testing::IsEmpty());
  EXPECT_FALSE(DataParallel(Linear(4, 5), {.device_ids = {0, 1}, .use_nccl = false}).uses_nccl());
}

/// A layer that forward does not use, a frozen one, one without elements, and running statistics.
struct Partial : Module {
  Linear used{4, 4}, unused{4, 4}, frozen{4, 3}, empty{4, 0};
  BatchNorm1d norm{3};
  Partial() {
    for (Tensor& x : frozen.parameters()) x.requires_grad_(false);
  }
  Tensor forward(const Tensor& x) override {
    EXPECT_FALSE(frozen.weight.requires_grad());  // of each replica
    EXPECT_TRUE(used.weight.requires_grad());
    return norm(frozen(used(x) + empty(x).sum()));
  }
  void visit(Visitor& v) override {
    v.child("used", used);
    v.child("unused", unused);
    v.child("frozen", frozen);
    v.child("empty", empty);
    v.child("norm", norm);
  }
};

TEST(DataParallel, NcclLeavesOutWhatHasNoGradient) {
  const Gpus gpus;
  manual_seed(3);
  Partial model;
  const Tensor x = randn({8, 4});
  DataParallel copies(model, {.device_ids = {0, 1}, .use_nccl = false}),
      nccl(model, {.device_ids = {0, 1}});
  // One after the other, because they share their parameters, as copies of a module do.
  copies.to(Device::cuda(0));
  (copies(x) * copies(x)).sum().backward();
  std::vector<Tensor> want;
  for (Tensor& p : copies.parameters()) want.push_back(p.grad());
  copies.zero_grad();
  nccl.to(Device::cuda(0));
  (nccl(x) * nccl(x)).sum().backward();
  std::size_t i = 0;
  for (Tensor& p : nccl.parameters()) {
    ASSERT_EQ(p.grad().defined(), want[i].defined()) << i;
    if (want[i].defined()) {
      EXPECT_TRUE(test::all_close(p.grad().to(Device::cpu()), want[i].to(Device::cpu()), 1e-5));
    }
    ++i;
  }
  EXPECT_THAT(test::nccl_violations(), testing::IsEmpty());
}

TEST(DataParallel, NcclTakesTensorsAsTheyLie) {
  const Gpus gpus;
  manual_seed(5);
  Conv2d conv(3, 4, 3);
  const cuda::Tf32 before = cuda::allowed_tf32();
  cuda::allow_tf32(cuda::Tf32::convolutions);  // so that the weight is channels_last
  conv.to(Device::cuda(0));
  ASSERT_TRUE(conv.weight.is_contiguous(MemoryFormat::channels_last));
  const Tensor x = randn({4, 3, 5, 5}, {.device = Device::cuda(0)});
  square(conv(x)).sum().backward();
  const Tensor want = conv.weight.grad().to(Device::cpu());
  conv.zero_grad();
  DataParallel parallel(conv, {.device_ids = {0, 1}});
  square(parallel(x)).sum().backward();
  EXPECT_TRUE(test::all_close(parallel.parameters()[0].grad().to(Device::cpu()), want, 1e-2));
  EXPECT_THAT(test::nccl_violations(), testing::IsEmpty());
  cuda::allow_tf32(before);
}

TEST(DataParallel, AFailureOfNcclIsTold) {
  const Gpus gpus;
  DataParallel parallel(Linear(3, 1), {.device_ids = {0, 1}});
  parallel.to(Device::cuda(0));
  const Tensor x = randn({6, 3});
  parallel(x);
  test::break_nccl(1);
  EXPECT_ERROR(parallel(x), CommError,
               "DataParallel: a broadcast of the parameters failed: NCCL: remote process exited");
  EXPECT_ERROR(parallel(x), CommError, "NCCL has failed before; make a new DataParallel");
  BatchNorm1d norm(3);
  norm.to(Device::cuda(0));
  norm.running_mean = zeros({3});
  DataParallel misplaced(norm, {.device_ids = {0, 1}});
  EXPECT_ERROR(misplaced(x), DeviceError,
               "DataParallel: running_mean is on cpu, but the first device is cuda:0");
}

TEST(DataParallel, TheGradientOverNcclHasAGradient) {
  const Gpus gpus;
  manual_seed(4);
  DataParallel parallel(Linear(3, 1), {.device_ids = {0, 1}});
  parallel.to(f64);
  parallel.to(Device::cuda(0));
  const Tensor weight = parallel.parameters()[0];
  const Tensor x = randn({6, 3}, {.dtype = f64});
  const Tensor y = parallel(x);
  const Tensor first = grad({(y * y).sum()}, {weight}, {.create_graph = true})[0];
  const Tensor second = grad({first.sum()}, {weight})[0];
  // y = x w + b, so d/dw of the sum over d/dw of sum y^2 is 2 x^T x 1.
  const Tensor want = matmul(matmul(x.t(), x), ones({3, 1}, {.dtype = f64})).t() * 2;
  EXPECT_TRUE(test::all_close(second.to(Device::cpu()), want, 1e-12));
}
#endif
#endif

}  // namespace
}  // namespace rondo::dist
