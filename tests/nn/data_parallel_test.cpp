// DataParallel over virtual devices of the CPU, and over GPUs that are simulated, against the
// module alone on the whole batch.

#include "nn/data_parallel.h"

#include <gmock/gmock.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"

#ifdef RONDO_HAS_CUDA
#include "support/simulated_gpu.h"
#endif

namespace rondo::nn {
namespace {

/// Two layers that share a weight, and one that does not.
struct Tied : Module {
  Linear a{6, 6}, b{6, 6}, c{6, 3};
  Tied() { b.weight = a.weight; }
  Tensor forward(const Tensor& x) override { return c(relu(b(relu(a(x))))); }
  void visit(Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
    v.child("c", c);
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

TEST(DataParallel, KeysAndStatisticsAreThoseOfPyTorch) {
  const Device cpu = Device::cpu();
  DataParallel parallel(Sequential(Linear(4, 5), BatchNorm1d(5)), {cpu, cpu}, cpu);
  EXPECT_EQ(parallel.state_dict()[0].name, "module.0.weight");
  manual_seed(1);
  const Tensor x = randn({8, 4});
  parallel(x);
  // The running mean is that of the first half's activations.
  auto& net = parallel.module().as<Sequential>();
  auto named = net.named_buffers();
  const Tensor running = named[0].tensor;
  const Tensor first = net.named_parameters()[0].tensor;
  const Tensor activation = matmul(x.narrow(0, 0, 4), first.t()) + net.named_parameters()[1].tensor;
  EXPECT_TRUE(test::all_close(running, activation.mean({0}) * 0.1, 1e-6));
  parallel.eval();
  EXPECT_FALSE(net.is_training());
  EXPECT_EQ(parallel(x).shape(), (Dims{8, 5}));
}

TEST(DataParallel, BadInputIsNamed) {
  const Device cpu = Device::cpu();
  DataParallel parallel(Linear(4, 5), {cpu, cpu}, cpu);
  EXPECT_ERROR(parallel(zeros({0, 4})), ShapeError,
               "DataParallel: input [0, 4] has no rows to share out");
  EXPECT_ERROR(DataParallel(Linear(4, 5), std::vector<Device>{}, cpu), DeviceError,
               "DataParallel: there are no devices");
  if (cuda::device_count() == 0) {
    EXPECT_ERROR(DataParallel(Linear(4, 5)), DeviceError, "device cuda:0 is not available: ");
  }
}

#ifdef RONDO_HAS_CUDA
TEST(DataParallel, OverGpusIsTheModuleAlone) {
  const test::SimulatedGpus gpus;
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
#endif

}  // namespace
}  // namespace rondo::nn
