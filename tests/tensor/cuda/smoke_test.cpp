// Run this first on a new GPU: one op of each library in each dtype that it supports, against the
// CPU. scripts/gpu_check.sh runs it with the libraries' own logs on, so that a failure comes with
// its reason.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/matmul.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#include "tensor/cuda.h"

namespace rondo::test {
namespace {

class GpuSmoke : public ::testing::TestWithParam<DType> {
 protected:
  GpuSmoke() {
    if (cuda::device_count() == 0) simulated_.emplace();
    manual_seed(1);
  }
  /// The output and the gradients of f(x, y) on the GPU equal those of the same numbers in f32 on
  /// the CPU. Both are f32 sums of at most n terms of size 1; a partial sum can be as large as
  /// sqrt(n).
  void expect_same(const Dims& of_x, const Dims& of_y, std::int64_t n,
                   const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
    const DType dtype = GetParam();
    const Tensor x = randn(of_x).to(dtype), y = randn(of_y).to(dtype);
    auto results = [&](DType in, Device device) {
      const Tensor a = x.to(in).to(device).detach(), b = y.to(in).to(device).detach();
      a.requires_grad_();
      b.requires_grad_();
      const Tensor out = f(a, b);
      out.backward(ones(out.shape(), out.options()));
      std::vector<Tensor> all;
      for (const Tensor& t : {out.detach(), a.grad(), b.grad()})
        all.push_back(t.to(Device::cpu()).to(f32));
      return all;
    };
    const std::vector<Tensor> want = results(f32, Device::cpu()),
                              got = results(dtype, Device::cuda());
    const double of_sums = tolerance(f32, n, std::sqrt(static_cast<double>(n)));
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(all_close(got[i], want[i], of_sums, tolerance(dtype))) << "result " << i;
  }

 private:
  std::optional<SimulatedGpus> simulated_;
};

TEST_P(GpuSmoke, RondosOwnKernel) {
  expect_same({1000}, {1000}, 1, [](const Tensor& x, const Tensor& y) { return x + y; });
}

TEST_P(GpuSmoke, CublasLtProduct) {
  expect_same({64, 96}, {96, 32}, 96,
              [](const Tensor& x, const Tensor& y) { return matmul(x, y); });
}

TEST_P(GpuSmoke, CudnnConvolution) {
  expect_same({4, 16, 12, 12}, {32, 16, 3, 3}, 4 * 12 * 12,
              [](const Tensor& x, const Tensor& y) { return conv2d(x, y, {}, {.padding = 1}); });
}

INSTANTIATE_TEST_SUITE_P(DTypes, GpuSmoke, ::testing::Values(f32, bf16, f16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace rondo::test
