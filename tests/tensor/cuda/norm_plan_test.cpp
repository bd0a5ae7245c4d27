// Batch norm through cuDNN: what the real one says of the graphs, on a GPU that is only described;
// and, with the test's own (support/host_cudnn_norm.h), that they compute what the CPU does.

#include "tensor/cuda/norm_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "support/errors.h"
#include "support/host_cudart.h"
#include "support/host_cudnn.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda/cudart.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/stream.h"

namespace rondo::cuda {
namespace {

/// All graphs there are, of some shape.
std::vector<NormProblem> all_problems(DType dtype) {
  std::vector<NormProblem> all;
  for (bool residual : {false, true}) {
    for (bool relu : {false, true}) {
      for (bool running : {false, true})
        all.push_back({.dtype = dtype,
                       .x = {8, 64, 16, 16},
                       .residual = residual,
                       .relu = relu,
                       .running = running});
    }
    for (ReluMask mask : {ReluMask::none, ReluMask::from_y, ReluMask::from_x}) {
      if (residual && mask == ReluMask::none) continue;
      all.push_back({.dtype = dtype,
                     .x = {8, 64, 16, 16},
                     .backward = true,
                     .residual = residual,
                     .mask = mask});
    }
  }
  return all;
}

// The graphs are in order. Whether there is an engine is not for a machine without a driver to say:
// those of cuDNN 9.19 are compiled at run time and decline there.
TEST(NormPlans, TheRealLibraryTakesTheGraphs) {
  try {
    cudnn();
  } catch (const CudaError& missing) {
    GTEST_SKIP() << missing.what();
  }
  std::ifstream file(RONDO_GPU_PROPERTIES);
  if (!file) GTEST_SKIP() << RONDO_GPU_PROPERTIES << " is not here";
  const Descriptor h200 = device_properties(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  std::size_t plans = 0;
  for (const NormProblem& p : all_problems(bf16))
    plans += norm_plans(p, {.properties = &h200}, 1).size();
  RecordProperty("plans", static_cast<int>(plans));
  EXPECT_ERROR(norm_plans(all_problems(i64)[0], {.properties = &h200}, 1), DTypeError,
               "batch_norm: no CUDA kernel for i64");
}

/// GPUs on which each measurement is slower than the one before it, or faster: cuDNN's engines are
/// tried before rondo's kernels.
class MeasuredNorm : public ::testing::Test {
 protected:
  void favour_cudnn(bool yes) {
    direction = yes ? 1 : -1;
    runtime_ = test::host_cudart();
    runtime_.event_elapsed_time = [](float* ms, cudaEvent_t, cudaEvent_t) {
      *ms = static_cast<float>(1000000 + direction * ++calls);
      return cudaSuccess;
    };
    set_cudart(&runtime_);
    library_ = test::host_cudnn();
    library_.execute = [](cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack) {
      ++executed;
      return test::host_cudnn().execute(handle, plan, pack);
    };
    set_cudnn(&library_);
    measure_plans(true);
    executed = 0;
  }
  ~MeasuredNorm() override { measure_plans(false); }

  static inline int direction = 1, calls = 0, executed = 0;
  test::SimulatedGpus gpus_;

 private:
  Cudart runtime_{};
  Cudnn library_{};
};

struct Outcome {
  Tensor y, running_mean, running_var, dx, dgamma, dbeta, dresidual;
};

/// Two steps of a layer, so that a choice is made and then used.
Outcome train(Device device, DType dtype, bool with_residual, bool relu) {
  Generator generator(5);
  auto make = [&](const Dims& shape, DType type) {
    return randn(shape, {.dtype = f32}, generator)
        .to(type)
        .to(device)
        .contiguous(shape.size() == 4 ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  };
  Tensor x = make({3, 8, 4, 5}, dtype), residual = make({3, 8, 4, 5}, dtype);
  Tensor weight = make({3, 8, 4, 5}, dtype);
  Tensor gamma = make({8}, f32), beta = make({8}, f32);
  Outcome o{.running_mean = make({8}, f32), .running_var = make({8}, f32)};
  for (Tensor* t : {&x, &residual, &gamma, &beta}) t->requires_grad_();
  for (int step = 0; step < 2; ++step) {
    for (Tensor* t : {&x, &residual, &gamma, &beta}) t->zero_grad();
    o.y = batch_norm(
        x, gamma, beta, o.running_mean, o.running_var,
        {.training = true, .residual = with_residual ? residual : Tensor(), .relu = relu});
    (o.y * weight).sum().backward();
  }
  o.dx = x.grad();
  o.dgamma = gamma.grad();
  o.dbeta = beta.grad();
  if (with_residual) o.dresidual = residual.grad();
  return o;
}

void expect_equal(const Outcome& got, const Outcome& want, DType dtype) {
  const double tolerance = dtype == f32 ? 1e-5 : dtype == bf16 ? 6e-2 : 8e-3;
  auto near = [&](const Tensor& a, const Tensor& b, const char* what) {
    ASSERT_EQ(a.defined(), b.defined()) << what;
    if (!a.defined()) return;
    EXPECT_TRUE(test::all_close(a.to(Device::cpu()).to(f64), b.to(f64), tolerance)) << what;
  };
  near(got.y, want.y, "y");
  near(got.running_mean, want.running_mean, "running_mean");
  near(got.running_var, want.running_var, "running_var");
  near(got.dx, want.dx, "dx");
  near(got.dgamma, want.dgamma, "dgamma");
  near(got.dbeta, want.dbeta, "dbeta");
  near(got.dresidual, want.dresidual, "dresidual");
}

TEST_F(MeasuredNorm, TheFasterEngineComputesWhatTheCpuDoes) {
  favour_cudnn(true);
  for (DType dtype : {f32, bf16, f16}) {
    for (bool residual : {false, true}) {
      for (bool relu : {false, true}) {
        SCOPED_TRACE(concat(dtype, residual ? ", residual" : "", relu ? ", relu" : ""));
        const int before = executed;
        const Outcome got = train(Device::cuda(0), dtype, residual, relu);
        // Trials of two engines, four times each; then twice in earnest; forward and backward
        // (which, without a relu, does not depend on the residual).
        const int trials = residual && !relu ? 8 : 16;
        EXPECT_EQ(executed - before, trials + 4);
        expect_equal(got, train(Device::cpu(), dtype, residual, relu), dtype);
      }
    }
  }
}

TEST_F(MeasuredNorm, TheKernelsStayWhereTheyAreFaster) {
  favour_cudnn(false);
  const Outcome got = train(Device::cuda(0), f32, true, true);
  EXPECT_EQ(executed, 2 * 8);
  expect_equal(got, train(Device::cpu(), f32, true, true), f32);
}

TEST_F(MeasuredNorm, NothingIsTriedUnlessAsked) {
  favour_cudnn(true);
  measure_plans(false);
  const auto before = synchronizations();
  train(Device::cuda(0), f32, true, true);
  EXPECT_EQ(executed, 0);
  EXPECT_EQ(synchronizations(), before);
}

}  // namespace
}  // namespace rondo::cuda
