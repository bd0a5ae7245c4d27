// Matrix products and convolutions: oneDNN's against the plain loops, over layouts and odd sizes.

#include <cmath>

#include "support/errors.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/reference.h"

namespace rondo {
namespace {

using test::all_close;
using test::as;
using test::tolerance;

/// The tolerance for a sum of `terms` products of two normal numbers. Partial sums grow like
/// sqrt(terms), and so does the rounding of each of the `terms` additions in f32. In 16 bits only
/// the inputs and the result are rounded, and three standard deviations cover the terms.
double sum_tolerance(DType dtype, std::int64_t terms) {
  return tolerance(dtype, terms, dtype == f32 ? std::max(3.0, std::sqrt(double(terms))) : 3);
}

Tensor transposed(const Tensor& x) {
  return x.as_view({x.size(0), x.size(2), x.size(1)}, {x.stride(0), x.stride(2), x.stride(1)},
                   x.storage_offset());
}

TEST(Matmul, AgreesWithTheLoops) {
  for (auto [batch, m, k, n] : {std::array<std::int64_t, 4>{1, 1, 1, 1},
                                {1, 7, 5, 3},
                                {3, 4, 17, 9},
                                {1, 64, 128, 33},
                                {2, 1, 31, 1},
                                {1, 1, 67, 13},  // a vector
                                {1, 1, 301, 512},
                                {5, 2, 3, 4}}) {
    Tensor a = randn({batch, m, k}), b = randn({batch, k, n}), bias = randn({n});
    Tensor expected = Tensor::empty({batch, m, n}, {.dtype = f64});
    cpu::reference::matmul(as(a, f64), as(b, f64), as(bias, f64), expected);
    Tensor at = transposed(as(transposed(a), f32)), bt = transposed(as(transposed(b), f32));
    for (DType dtype : {f32, bf16, f16}) {
      for (const Tensor& left : {a, at}) {
        for (const Tensor& right : {b, bt}) {
          if (dtype != f32 && !(left.is_same(a) && right.is_same(b))) continue;
          Tensor y = Tensor::empty({batch, m, n}, {.dtype = dtype});
          backend(y).matmul(dtype == f32 ? left : as(left, dtype),
                            dtype == f32 ? right : as(right, dtype), as(bias, dtype), y);
          EXPECT_TRUE(all_close(as(y, f64), expected, sum_tolerance(dtype, k + 1)))
              << dtype << ' ' << batch << ' ' << m << ' ' << k << ' ' << n;
        }
      }
    }
  }
}

TEST(Matmul, BroadcastBatchesSlicesAndNothing) {
  Tensor a = randn({1, 4, 6}), b = randn({3, 6, 5});
  Tensor repeated = a.as_view({3, 4, 6}, {0, 6, 1}, 0);
  Tensor y = Tensor::empty({3, 4, 5}), expected = Tensor::empty({3, 4, 5});
  backend(y).matmul(repeated, b, {}, y);
  cpu::reference::matmul(repeated, b, {}, expected);
  EXPECT_TRUE(all_close(y, expected, tolerance(f32, 6)));

  Tensor wide = randn({3, 6, 10});
  Tensor columns = wide.as_view({3, 6, 5}, {60, 10, 2}, 1);  // every second column
  backend(y).matmul(repeated, columns, {}, y);
  cpu::reference::matmul(repeated, columns, {}, expected);
  EXPECT_TRUE(all_close(y, expected, tolerance(f32, 6)));

  Tensor bias = randn({5});
  backend(y).matmul(Tensor::empty({3, 4, 0}), Tensor::empty({3, 0, 5}), bias, y);
  EXPECT_EQ(y.as_view({5}, {1}, 5).to_vector<float>(), bias.to_vector<float>());
  backend(y).matmul(Tensor::empty({3, 4, 0}), Tensor::empty({3, 0, 5}), {}, y);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(60, 0.f));
  Tensor none = Tensor::empty({0, 4, 5});
  backend(y).matmul(Tensor::empty({0, 4, 2}), Tensor::empty({0, 2, 5}), {}, none);
}

TEST(Matmul, IntegersAreExact) {
  Tensor a = tensor<std::int64_t>({1, 2, 3, 4}, {1, 2, 2}),
         y = Tensor::empty({1, 2, 2}, {.dtype = i64});
  backend(y).matmul(a, a, {}, y);
  EXPECT_EQ(y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 10, 15, 22}));
}

struct ConvCase {
  std::int64_t n, c, h, w, k, r, s;
  Conv2dParams params;
};

class Conv2d : public ::testing::TestWithParam<ConvCase> {};

TEST_P(Conv2d, ThreePrimitivesAgreeWithTheLoops) {
  const ConvCase& p = GetParam();
  const Conv2dParams& o = p.params;
  std::int64_t out_h = (p.h + 2 * o.pad_h - o.dilation_h * (p.r - 1) - 1) / o.stride_h + 1;
  std::int64_t out_w = (p.w + 2 * o.pad_w - o.dilation_w * (p.s - 1) - 1) / o.stride_w + 1;
  Tensor x = randn({p.n, p.c, p.h, p.w}), w = randn({p.k, p.c / o.groups, p.r, p.s}),
         bias = randn({p.k});
  Tensor dy = randn({p.n, p.k, out_h, out_w});
  TensorOptions wide{.dtype = f64};
  Tensor y64 = Tensor::empty(dy.shape(), wide), dx64 = Tensor::empty(x.shape(), wide);
  Tensor dw64 = Tensor::empty(w.shape(), wide), db64 = Tensor::empty({p.k}, wide);
  cpu::reference::conv2d(as(x, f64), as(w, f64), as(bias, f64), y64, o);
  cpu::reference::conv2d_backward_input(as(dy, f64), as(w, f64), dx64, o);
  cpu::reference::conv2d_backward_weight(as(dy, f64), as(x, f64), dw64, db64, o);

  for (DType dtype : {f32, bf16, f16}) {
    for (MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      TensorOptions like{.dtype = dtype, .format = format};
      Tensor xs = as(x, dtype, format), ws = as(w, dtype), dys = as(dy, dtype, format);
      Tensor y = Tensor::empty(dy.shape(), like), dx = Tensor::empty(x.shape(), like);
      Tensor dw = Tensor::empty(w.shape(), {.dtype = dtype}),
             db = Tensor::empty({p.k}, {.dtype = dtype});
      backend(y).conv2d(xs, ws, as(bias, dtype), y, o);
      backend(y).conv2d_backward_input(dys, ws, dx, o);
      backend(y).conv2d_backward_weight(dys, xs, dw, db, o);
      Tensor dw_alone = Tensor::empty(w.shape(), {.dtype = dtype});  // as layers request it
      backend(y).conv2d_backward_weight(dys, xs, dw_alone, {}, o);
      std::int64_t taps = p.c / o.groups * p.r * p.s, pixels = p.n * out_h * out_w;
      EXPECT_TRUE(all_close(as(y, f64), y64, sum_tolerance(dtype, taps))) << dtype;
      EXPECT_TRUE(all_close(as(dx, f64), dx64, sum_tolerance(dtype, p.k / o.groups * p.r * p.s)))
          << dtype;
      EXPECT_TRUE(all_close(as(dw, f64), dw64, sum_tolerance(dtype, pixels))) << dtype;
      EXPECT_TRUE(all_close(as(dw_alone, f64), dw64, sum_tolerance(dtype, pixels))) << dtype;
      EXPECT_TRUE(all_close(as(db, f64), db64, sum_tolerance(dtype, pixels))) << dtype;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Conv2d,
    ::testing::Values(
        ConvCase{2, 3, 9, 7, 16, 3, 3, {.pad_h = 1, .pad_w = 1}},     // a stem
        ConvCase{3, 16, 8, 8, 16, 3, 3, {.pad_h = 1, .pad_w = 1}},    // viewed as blocked
        ConvCase{1, 512, 2, 3, 528, 3, 3, {.pad_h = 1, .pad_w = 1}},  // in blocks
        ConvCase{1, 512, 3, 2, 512, 3, 3, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}},
        ConvCase{2, 16, 9, 9, 32, 3, 3, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}},
        ConvCase{2, 8, 7, 7, 12, 1, 1, {.stride_h = 2, .stride_w = 2}},  // 1x1
        ConvCase{1, 80, 5, 7, 64, 3, 2, {.stride_h = 1, .stride_w = 3, .pad_h = 4, .pad_w = 2}},
        ConvCase{2, 64, 8, 6, 64, 2, 3, {.pad_h = 2, .pad_w = 5, .dilation_h = 3, .dilation_w = 4}},
        ConvCase{1, 5, 11, 6, 7, 3, 2, {.stride_h = 1, .stride_w = 3, .pad_h = 2, .dilation_h = 2}},
        ConvCase{2, 8, 6, 6, 12, 3, 3, {.pad_h = 1, .pad_w = 1, .groups = 4}},
        ConvCase{2, 6, 6, 6, 6, 3, 3, {.pad_h = 1, .pad_w = 1, .groups = 6}},  // depthwise
        ConvCase{2, 3, 31, 31, 8, 7, 7, {.stride_h = 2, .stride_w = 2, .pad_h = 3, .pad_w = 3}},
        ConvCase{1, 1, 1, 1, 1, 1, 1, {}},
        ConvCase{1, 2, 5, 5, 3, 2, 2, {.stride_h = 2, .stride_w = 2}}));  // remaining rows

TEST(Matmul, BatchesMayBeInterleaved) {
  // (1, 0, 2)-permuted: the stride to the next matrix is smaller than a matrix.
  for (DType dtype : {f32, bf16, f64}) {
    Tensor a = as(randn({3, 2, 4}), dtype), b = as(randn({2, 4, 5}), dtype);
    Tensor left = a.as_view({2, 3, 4}, {a.stride(1), a.stride(0), 1}, 0);
    Tensor y = Tensor::empty({2, 3, 5}, {.dtype = dtype}), expected = Tensor::empty_like(y);
    backend(y).matmul(left, b, {}, y);
    backend(y).matmul(as(left, dtype), b, {}, expected);
    EXPECT_TRUE(all_close(y, expected, 0)) << dtype;
    // The columns interleave too.
    Tensor right = transposed(left);  // (2, 4, 3)
    Tensor z = Tensor::empty({2, 4, 5}, {.dtype = dtype}), want = Tensor::empty_like(z);
    backend(z).matmul(right, y, {}, z);
    backend(z).matmul(as(right, dtype), y, {}, want);
    EXPECT_TRUE(all_close(z, want, 0)) << dtype;
  }
}

/// Whatever layout is chosen, oneDNN must not use its slow fallback, which is a hundred times
/// slower than its kernels.
TEST(Conv2dKernels, NoShapeFallsBackToPlainLoops) {
  using Pass = cpu::Conv2dProblem::Pass;
  for (Pass pass : {Pass::forward, Pass::backward_input, Pass::backward_weight}) {
    for (std::int64_t channels : {16, 128, 512}) {
      for (std::int64_t size : {1, 2, 4, 12}) {
        for (std::int64_t kernel : {1, 3, 5, 7}) {
          for (std::int64_t dilation : {1, 4}) {
            for (std::int64_t pad : {std::int64_t{0}, dilation * (kernel - 1) / 2}) {
              const std::int64_t out = size + 2 * pad - dilation * (kernel - 1);
              if (out < 1) continue;
              Conv2dParams params{
                  .pad_h = pad, .pad_w = pad, .dilation_h = dilation, .dilation_w = dilation};
              EXPECT_TRUE(cpu::convolution({.pass = pass,
                                            .dtype = f32,
                                            .n = 16,
                                            .c = channels,
                                            .h = size,
                                            .w = size,
                                            .k = channels,
                                            .r = kernel,
                                            .s = kernel,
                                            .p = out,
                                            .q = out,
                                            .params = params,
                                            .bias = false})
                              ->fast)
                  << channels << " channels, " << size << ", kernel " << kernel << ", dilation "
                  << dilation << ", pad " << pad;
            }
          }
        }
      }
    }
  }
}

TEST(Conv2dEmpty, NothingToSumIsZeroOrTheBias) {
  struct Case {
    Dims x, w, y;
  };
  for (const Case& c : {Case{{2, 0, 4, 4}, {3, 0, 2, 2}, {2, 3, 3, 3}},   // no input channels
                        Case{{0, 2, 4, 4}, {3, 2, 2, 2}, {0, 3, 3, 3}},   // no images
                        Case{{1, 2, 0, 2}, {3, 2, 2, 2}, {1, 3, 1, 3}}})  // only padding
  {
    Conv2dParams params;
    if (c.x[2] == 0) params = {.pad_h = 1, .pad_w = 1};
    for (DType dtype : {f32, bf16, f16, f64}) {
      TensorOptions options{.dtype = dtype};
      Tensor x = ones(c.x, options), w = ones(c.w, options), dy = ones(c.y, options);
      Tensor bias = as(tensor<float>({1, 2, 3}), dtype);
      Tensor y = full(c.y, 7, options), dx = full(c.x, 7, options), dw = full(c.w, 7, options),
             dbias = full({3}, 7, options);
      backend(y).conv2d(x, w, {}, y, params);
      EXPECT_TRUE(all_close(y, zeros(c.y, options), 0)) << dtype << c.x;
      backend(y).conv2d(x, w, bias, y, params);
      Tensor channels = bias.as_view({1, 3, 1, 1}, {0, 1, 0, 0}, 0);
      EXPECT_TRUE(all_close(y, as(channels.broadcast_view(c.y), dtype), 0)) << dtype << c.x;
      backend(y).conv2d_backward_input(dy, w, dx, params);
      EXPECT_TRUE(all_close(dx, zeros(c.x, options), 0)) << dtype << c.x;
      backend(y).conv2d_backward_weight(dy, x, dw, dbias, params);
      EXPECT_TRUE(all_close(dw, zeros(c.w, options), 0)) << dtype << c.x;
      double pixels = static_cast<double>(dy.numel()) / 3;
      EXPECT_TRUE(all_close(dbias, full({3}, pixels, options), 0)) << dtype << c.x;
    }
  }
}

TEST(OneDnn, WhatItRefusesIsAnErrorOfRondo) {
  // Sizes that no convolution has, passed directly without the op's own checks.
  Tensor x = ones({1, 2, 4, 4}), w = ones({3, 2, 2, 2}), y = Tensor::empty({1, 3, 9, 9});
  EXPECT_ERROR(backend(y).conv2d(x, w, {}, y, {.dilation_h = -3}), Error,
               "oneDNN cannot compute conv2d of f32 input [1, 2, 4, 4], weight [3, 2, 2, 2]");
}

}  // namespace
}  // namespace rondo
