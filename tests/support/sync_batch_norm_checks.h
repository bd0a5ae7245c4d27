#pragma once
// Batch norm over ranks, at extreme values and under DDP: over threads by
// tests/dist/data_parallel/sync_batch_norm_test.cpp, on simulated GPUs by
// tests/dist/collectives/cuda/gpu_collectives_test.cpp.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "dist/collectives/functional.h"
#include "dist/data_parallel/sync_batch_norm.h"
#include "nn/batch_norm.h"
#include "support/ddp_checks.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {

/// Channels whose numbers are equal, huge, tiny or not finite.
inline Tensor extreme_channels(std::int64_t images, DType dtype) {
  const bool is_f16 = dtype == f16;
  const double large = is_f16 ? 65504 : 1e18, small = is_f16 ? 6.2e-5 : 1e-18;
  const double equal = is_f16 ? 65504 : 1'000'001,
               infinity = std::numeric_limits<double>::infinity();
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < images; ++i) {
    const double sign = i % 2 != 0 ? -1 : 1, usual = static_cast<double>(i % 5);
    const bool is_last = i + 1 == images;
    for (const double v : {equal, 0.1, sign * large, sign * small, usual,
                           is_last ? infinity : usual, is_last ? std::nan("") : usual})
      numbers.push_back(v);
  }
  return tensor<double>(numbers, {images, std::ssize(numbers) / images}).to(dtype);
}

/// Each column of `actual` is near that of `expected`, relative to the largest number in the column
/// of `sizes`.
inline void expect_columns_near(const Tensor& actual, const Tensor& expected, double relative,
                                const Tensor& sizes) {
  const std::int64_t last = expected.dim() - 1;
  for (std::int64_t c = 0; c < expected.size(last); ++c) {
    const auto
        right = expected.select(last, c).contiguous().to_vector<double>(),
        got = actual.select(last, c).to(Device::cpu()).to(f64).contiguous().to_vector<double>();
    double scale = 0;
    for (double v : sizes.select(sizes.dim() - 1, c).contiguous().to_vector<double>())
      scale = std::max(scale, std::isfinite(v) ? std::abs(v) : 0);
    for (std::size_t i = 0; i < right.size(); ++i) {
      SCOPED_TRACE(concat("channel ", c, ", element ", i));
      if (std::isnan(right[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << got[i];
      } else if (std::isfinite(right[i])) {
        EXPECT_NEAR(got[i], right[i], relative * scale);
      }
    }
  }
}

/// Outputs, gradients and running statistics are those of batch norm of all images in f64.
inline void check_sync_batch_norm_extremes(std::shared_ptr<dist::Communicator> comm,
                                           Device device = {}) {
  const int n = comm->world_size(), r = comm->rank();
  const std::int64_t share = 30 + 7 * r, first = 30 * r + 7 * r * (r - 1) / 2,
                     images = 30 * n + 7 * n * (n - 1) / 2;
  const auto normed = [](const Tensor& x, const Tensor& factors, const BatchNormOptions& options) {
    const Tensor mean = zeros({x.size(1)}, {.device = x.device()}), var = ones_like(mean);
    x.requires_grad_();
    const Tensor y = batch_norm(x, {}, {}, mean, var, options);
    sum(y * factors).backward();
    return Tensors{y.detach(), x.grad(), mean, var};
  };
  BatchNormOptions synced;
  if (n > 1) synced.sum_over_ranks = [&](auto& x) { return dist::all_reduce_sum(x, comm); };
  for (DType dtype : {f32, bf16, f16}) {
    const Tensor all = extreme_channels(images, dtype);
    const Tensor factors = (arange(all.numel()) % 3).to(dtype).reshape(all.shape());
    const auto mine = [&](const Tensor& x) {
      return x.narrow(0, first, share).contiguous().clone().to(device);
    };
    const Tensors want = normed(all.to(f64), factors.to(f64), {}),
                  got = normed(mine(all), mine(factors), synced);
    for (std::size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(concat(dtype, ", result ", i));
      const Tensor right = i < 2 ? want[i].narrow(0, first, share) : want[i].to(f64);
      // A mean is rounded as the numbers are: a few units in the last place of the largest.
      if (i == 2)
        expect_columns_near(got[i], right, 0x1p-21, all.to(f64));
      else
        expect_columns_near(got[i], right, dtype == f32 ? 1e-4 : 2e-2, right);
    }
  }
}

/// A convolution, a norm with residual and relu, a norm of features.
struct SyncNormed : nn::Module {
  nn::Conv2d conv{3, 6, 3, {.padding = 1}};
  nn::BatchNorm2d bn1{6};
  nn::Linear fc{6 * 4 * 4, 5};
  nn::BatchNorm1d bn2{5};
  Tensor forward(const Tensor& x) override {
    Tensor h = conv(x);
    return bn2(fc(bn1(h, {.residual = h, .relu = true}).flatten(1)));
  }
  void visit(nn::Visitor& v) override {
    v.child("conv", conv);
    v.child("bn1", bn1);
    v.child("fc", fc);
    v.child("bn2", bn2);
  }
};

/// In f32 and under DDP, whose buckets are sent meanwhile: N ranks equal one process.
inline void check_sync_batch_norm_under_ddp(std::shared_ptr<dist::Communicator> comm,
                                            Device device = {}) {
  const int n = comm->world_size(), r = comm->rank();
  SyncNormed whole, mine;
  set_weights(whole, 3);
  set_weights(mine, 3);
  whole.to(device);
  mine.to(device);
  dist::convert_sync_batch_norm(mine, comm);
  dist::DistributedDataParallel ddp(mine, comm, {.buckets = {.bucket_bytes = 1000}});
  optim::SGD whole_sgd(whole.parameters(), {.lr = 0.05}), sgd(mine.parameters(), {.lr = 0.05});
  for (int step = 0; step < 5; ++step) {
    const Batch batch = batch_of({3, 4, 4}, step, f32);
    const Tensor x = batch.x.to(device), y = batch.y.to(device);
    const std::int64_t part = 96 / n;
    whole_sgd.zero_grad();
    cross_entropy(whole(x), y).backward();
    whole_sgd.step();
    sgd.zero_grad();
    cross_entropy(ddp(x.narrow(0, r * part, part)), y.narrow(0, r * part, part)).backward();
    sgd.step();
  }
  auto pa = whole.named_parameters(), pb = mine.named_parameters();
  for (std::size_t i = 0; i < pa.size(); ++i) {
    auto x1 = pa[i].tensor.to_vector<double>(), x2 = pb[i].tensor.to_vector<double>();
    for (std::size_t k = 0; k < x1.size(); ++k) ASSERT_NEAR(x1[k], x2[k], 2e-4) << pa[i].name;
  }
}

}  // namespace rondo::test
