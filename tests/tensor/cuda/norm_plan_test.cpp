// Batch norm through cuDNN. The real cuDNN checks the graphs on a GPU that is only described; the
// test's own (support/host_cudnn_graph.h) checks that they compute the CPU's results.

#include "tensor/cuda/norm_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "support/described_gpu.h"
#include "support/errors.h"
#include "support/measured_plans.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/stream.h"

namespace rondo::cuda {
namespace {

/// All graphs, of some shape.
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
    for (ReluMaskSource mask :
         {ReluMaskSource::none, ReluMaskSource::from_y, ReluMaskSource::from_x}) {
      if (residual && mask == ReluMaskSource::none) continue;
      all.push_back({.dtype = dtype,
                     .x = {8, 64, 16, 16},
                     .backward = true,
                     .residual = residual,
                     .mask = mask});
    }
  }
  return all;
}

// The graphs are valid. A machine without a driver cannot tell whether there is an engine: those of
// cuDNN 9.19 are compiled at run time and refuse there.
TEST(NormPlans, TheRealLibraryTakesTheGraphs) {
  std::string why;
  const auto h100 = test::described_h100(why);
  if (!h100) GTEST_SKIP() << why;
  std::size_t plans = 0;
  for (DType dtype : {bf16, f32, f16}) {
    for (const NormProblem& p : all_problems(dtype)) {
      if (dtype != bf16 && (p.residual || p.running)) continue;  // each takes the library a while
      plans += norm_plans(p, {.properties = &*h100}, 1).size();
    }
  }
  RecordProperty("plans", static_cast<int>(plans));
  EXPECT_ERROR(norm_plans(all_problems(i64)[0], {.properties = &*h100}, 1), DTypeError,
               "batch_norm: no CUDA kernel for i64");
}

class MeasuredNorm : public test::MeasuredPlans {};

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

/// Each result may be rounded once to its dtype, after f32 sums of a channel's few thousand
/// elements in any order.
void expect_near(const Tensor& got, const Tensor& want, const char* what) {
  ASSERT_EQ(got.defined(), want.defined()) << what;
  if (!want.defined()) return;
  const double eps = want.dtype() == bf16 ? 0x1p-8 : want.dtype() == f16 ? 0x1p-11 : 0x1p-18;
  const Tensor a = got.to(Device::cpu()).to(f64), b = want.to(Device::cpu()).to(f64);
  EXPECT_TRUE(test::all_close(a, b, 2 * eps * b.abs().max().item<double>())) << what;
}

void expect_equal(const Outcome& got, const Outcome& want) {
  expect_near(got.y, want.y, "y");
  expect_near(got.running_mean, want.running_mean, "running_mean");
  expect_near(got.running_var, want.running_var, "running_var");
  expect_near(got.dx, want.dx, "dx");
  expect_near(got.dgamma, want.dgamma, "dgamma");
  expect_near(got.dbeta, want.dbeta, "dbeta");
  expect_near(got.dresidual, want.dresidual, "dresidual");
}

TEST_F(MeasuredNorm, TheFasterEngineComputesWhatTheCpuDoes) {
  favour_cudnn(true);
  for (DType dtype : {f32, bf16, f16}) {
    for (bool residual : {false, true}) {
      for (bool relu : {false, true}) {
        SCOPED_TRACE(concat(dtype, residual ? ", residual" : "", relu ? ", relu" : ""));
        const int before = executed;
        const Outcome got = train(Device::cuda(0), dtype, residual, relu);
        // Trials of two engines, four times each, then two real calls; forward and backward (which,
        // without a relu, does not depend on the residual).
        const int trials = residual && !relu ? 8 : 16;
        EXPECT_EQ(executed - before, trials + 4);
        expect_equal(got, train(Device::cpu(), dtype, residual, relu));
      }
    }
  }
}

TEST_F(MeasuredNorm, TheKernelsStayWhereTheyAreFaster) {
  favour_cudnn(false);
  const Outcome got = train(Device::cuda(0), f32, true, true);
  EXPECT_EQ(executed, 2 * 8);
  expect_equal(got, train(Device::cpu(), f32, true, true));
}

TEST_F(MeasuredNorm, TheKernelsStayWhereEveryEngineFails) {
  favour_cudnn(true);
  fails = true;
  const Outcome got = train(Device::cuda(0), f32, true, true);
  expect_equal(got, train(Device::cpu(), f32, true, true));
}

TEST_F(MeasuredNorm, EachGpuHasPlansOfItsOwn) {
  favour_cudnn(true);
  const Outcome got = train(Device::cuda(1), f32, true, true);
  EXPECT_EQ(executed, 16 + 4);
  expect_equal(got, train(Device::cpu(), f32, true, true));
}

// The kernels are bit-identical in every run; choosing by measured time would not be.
TEST_F(MeasuredNorm, NothingIsTriedWhereItMustBeDeterministic) {
  favour_cudnn(true);
  set_deterministic(true);
  train(Device::cuda(0), f32, true, true);
  EXPECT_EQ(executed, 0);
}

TEST_F(MeasuredNorm, WhatIsNotANumberStaysSo) {
  favour_cudnn(true);
  Tensor x = randn({3, 8, 4, 5}).contiguous(MemoryFormat::channels_last).to(Device::cuda(0));
  const Tensor gamma = full({8}, std::nan(""), {.device = Device::cuda(0)}),
               beta = zeros({8}, {.device = Device::cuda(0)});
  for (int i = 0; i < 2; ++i) {
    const Tensor y = batch_norm(x, gamma, beta, {}, {}, {.training = true, .relu = true});
    EXPECT_TRUE(std::isnan(y.to(Device::cpu()).sum().item<double>()));
  }
  EXPECT_EQ(executed, 8 + 2);
}

// Other dtypes and layouts of the operands always use rondo's kernels.
TEST_F(MeasuredNorm, OnlyChannelsLastIsTried) {
  favour_cudnn(true);
  const Device gpu = Device::cuda(0);
  const Tensor gamma = ones({8}, {.device = gpu}), beta = zeros({8}, {.device = gpu});
  batch_norm(randn({3, 8, 4, 5}).to(gpu), gamma, beta, {}, {}, {.training = true});
  batch_norm(randn({30, 8}).to(gpu), gamma, beta, {}, {}, {.training = true});
  EXPECT_EQ(executed, 0);
}

TEST_F(MeasuredNorm, NothingIsTriedUnlessAsked) {
  favour_cudnn(true);
  measure_plans(false);
  const auto before = synchronizations();
  train(Device::cuda(0), f32, true, true);
  EXPECT_EQ(executed, 0);
  EXPECT_EQ(synchronizations(), before);
}

/// Every plan that cuDNN names, on a GPU if there is one: its results and those of rondo's kernels.
class EveryPlan : public ::testing::TestWithParam<DType> {
 protected:
  EveryPlan() {
    if (device_count() == 0) simulated_.emplace();
  }
  Tensor image() const {
    return randn({8, 64, 16, 16}, {.dtype = f32}, generator_)
        .to(GetParam())
        .contiguous(MemoryFormat::channels_last)
        .to(gpu_);
  }
  Tensor channels() const { return rand({64}, {.dtype = f32}, generator_).to(gpu_); }

  const Device gpu_ = Device::cuda(0);
  mutable Generator generator_{11};

 private:
  std::optional<test::SimulatedGpus> simulated_;
};

TEST_P(EveryPlan, ComputesForwardWhatTheKernelsDo) {
  for (const NormProblem& p : all_problems(GetParam())) {
    if (p.backward) continue;
    NormForward want{.x = image(),
                     .gamma = channels(),
                     .beta = channels(),
                     .residual = p.residual ? image() : Tensor(),
                     .momentum = 0.1,
                     .eps = 1e-5,
                     .relu = p.relu,
                     .y = image(),
                     .mean = channels(),
                     .invstd = channels()};
    if (p.running) {
      want.running_mean = channels();
      want.running_var = channels();
    }
    const auto plans = norm_plans(want.problem(), {.handle = cudnn_handle(0)}, 10);
    for (const CudnnPlan& plan : plans) {
      NormForward got = want;
      for (Tensor* t : {&got.y, &got.mean, &got.invstd}) *t = Tensor::empty_like(*t);
      if (p.running) {
        got.running_mean = want.running_mean.clone();
        got.running_var = want.running_var.clone();
      }
      NormForward kernels = want;
      if (p.running) {
        kernels.running_mean = want.running_mean.clone();
        kernels.running_var = want.running_var.clone();
      }
      execute(plan, got);
      backend(gpu_).batch_norm(kernels.x, kernels.gamma, kernels.beta, kernels.running_mean,
                               kernels.running_var, kernels.momentum, kernels.eps,
                               {.residual = kernels.residual, .relu = kernels.relu}, kernels.y,
                               kernels.mean, kernels.invstd);
      expect_near(got.y, kernels.y, "y");
      expect_near(got.mean, kernels.mean, "mean");
      expect_near(got.invstd, kernels.invstd, "invstd");
      expect_near(got.running_mean, kernels.running_mean, "running_mean");
      expect_near(got.running_var, kernels.running_var, "running_var");
    }
    RecordProperty(concat("plans", p.residual, p.relu, p.running), static_cast<int>(plans.size()));
  }
}

TEST_P(EveryPlan, ComputesBackwardWhatTheKernelsDo) {
  for (const NormProblem& p : all_problems(GetParam())) {
    if (!p.backward) continue;
    NormBackward want{.dy = image(),
                      .x = image(),
                      .y = p.mask == ReluMaskSource::from_y ? image() : Tensor(),
                      .gamma = channels(),
                      .beta = p.mask == ReluMaskSource::from_x ? channels() : Tensor(),
                      .mean = channels(),
                      .invstd = channels(),
                      .dx = image(),
                      .dgamma = channels(),
                      .dbeta = channels(),
                      .dresidual = p.residual ? image() : Tensor()};
    const auto plans = norm_plans(want.problem(), {.handle = cudnn_handle(0)}, 10);
    for (const CudnnPlan& plan : plans) {
      NormBackward got = want;
      for (Tensor* t : {&got.dx, &got.dgamma, &got.dbeta, &got.dresidual})
        if (t->defined()) *t = Tensor::empty_like(*t);
      execute(plan, got);
      backend(gpu_).batch_norm_backward(want.dy, want.x, want.y, p.mask != ReluMaskSource::none,
                                        want.gamma, want.beta, want.mean, want.invstd, want.dx,
                                        want.dgamma, want.dbeta, want.dresidual);
      expect_near(got.dx, want.dx, "dx");
      expect_near(got.dgamma, want.dgamma, "dgamma");
      expect_near(got.dbeta, want.dbeta, "dbeta");
      expect_near(got.dresidual, want.dresidual, "dresidual");
    }
    RecordProperty(concat("plans", p.residual, static_cast<int>(p.mask)),
                   static_cast<int>(plans.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EveryPlan, ::testing::Values(f32, bf16, f16),
                         [](const auto& info) { return concat(info.param); });

}  // namespace
}  // namespace rondo::cuda
