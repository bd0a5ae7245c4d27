// Normalisation of 16-bit floats, of huge numbers and of empty batches, and its errors. Expected
// numbers are PyTorch's, or follow from the formula.

#include "autograd/ops/norm.h"

#include <omp.h>

#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::all_close;
using test::as;
using test::fill;

TEST(Norm, SixteenBitsAreComputedInF32) {
  // (1000 / 2)^2 overflows in f16.
  Tensor x = tensor<float>({0, 1000}, {1, 2}).to(f16),
         unit = tensor<float>({-1, 1}, {1, 2}).to(f16);
  EXPECT_TRUE(all_close(layer_norm(x, {2}), unit, 0));
  EXPECT_TRUE(all_close(group_norm(x, 1), unit, 0));
  EXPECT_TRUE(all_close(layer_norm(x, {2}, ones({2}), ones({2})), unit + 1, 0));
  Tensor y = tensor<float>({0, 1000, 400}).to(f16).requires_grad_();
  layer_norm(y, {3}).backward(tensor<float>({1, 2, 3}).to(f16));
  EXPECT_TRUE(all_close(y.grad(), tensor<float>({-0.0015f, -0.0010f, 0.0026f}).to(f16), 5e-5));
}

TEST(BatchNorm, StatisticsAreNotRoundedToTheInputsDtype) {
  // bf16 cannot represent 257: rounded to 256, the statistics would be wrong by one.
  Tensor x = tensor<float>({256, 258, 260, 256}, {4, 1}).to(bf16);
  Tensor mean = tensor<float>({257}), var = ones({1}), gamma = ones({1}), beta = zeros({1});
  BatchNormOptions eval{.training = false, .eps = 0};
  Tensor expected = tensor<float>({-1, 1, 3, -1}, {4, 1}).to(bf16);
  Tensor plain = no_grad([&] { return batch_norm(x, gamma, beta, mean, var, eval); });
  EXPECT_TRUE(all_close(plain, expected, 0));
  gamma.requires_grad_();
  Tensor recorded = batch_norm(x, gamma, beta, mean, var, eval);
  EXPECT_TRUE(recorded.requires_grad());
  EXPECT_TRUE(all_close(recorded.detach(), expected, 0));
  recorded.sum().backward();
  EXPECT_EQ(gamma.grad().item(), 2);

  // The same in training with 16-bit parameters, which uses the composed path: x - 257.5.
  Tensor half = batch_norm(x, ones({1}, {.dtype = bf16}), {}, {}, {}, {.eps = 0});
  double deviation = std::sqrt((2.25 + 0.25 + 6.25 + 2.25) / 4);
  EXPECT_NEAR(half[0].item<double>(), -1.5 / deviation, 4e-3);
  EXPECT_NEAR(half[1].item<double>(), 0.5 / deviation, 2e-3);
}

/// With a fused relu, backward takes the mask from bits that the forward stored, or recomputes it
/// from x or y. A separate relu has its own mask. beta puts many elements within a rounding of 0,
/// and is overwritten before the backward.
TEST(BatchNorm, TheFusedReluHasTheMaskOfTheForward) {
  auto check = [](std::int64_t channels, MemoryFormat format, bool with_residual, DType dtype,
                  float scale) {
    const Dims shape = {3, channels, 4, 4};
    Tensor x = randn(shape).to(dtype).contiguous(format), dy = randn(shape).to(dtype);
    Tensor gamma = randn({channels}) * scale, shortcut = zeros(shape).to(dtype);
    Tensor plain = batch_norm(x, gamma, zeros({channels}), {}, {});
    Tensor beta = plain.select(3, 1).select(2, 2).select(0, 0).to(f32) * -1;
    auto gradients = [&](bool fused) {
      std::vector<Tensor> in = {x.clone().requires_grad_(), gamma.clone().requires_grad_(),
                                beta.clone().requires_grad_()};
      Tensor residual = with_residual ? shortcut.clone().requires_grad_() : Tensor();
      Tensor y = batch_norm(in[0], in[1], in[2], {}, {}, {.residual = residual, .relu = fused});
      if (!fused) y = relu(y);
      no_grad([&] { return in[2].fill_(100); });
      y.backward(dy);
      std::vector<Tensor> grads = {in[0].grad(), in[1].grad(), in[2].grad()};
      if (with_residual) grads.push_back(residual.grad());
      return grads;
    };
    auto fused = gradients(true), spelled_out = gradients(false);
    for (std::size_t i = 0; i < fused.size(); ++i)
      EXPECT_TRUE(all_close(fused[i], spelled_out[i], 0))
          << i << ' ' << channels << ' ' << dtype << with_residual << ' ' << scale;
  };
  for (MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    for (bool with_residual : {false, true}) {
      for (const std::int64_t channels : {64, 67}) {  // a multiple of the vector width, and not
        check(channels, format, with_residual, f32, 1);
        check(channels, format, with_residual, bf16, 1);
        check(channels, format, with_residual, bf16, 1e-40f);  // outputs underflow to 0
        check(channels, format, with_residual, f16, 1e-9f);
      }
    }
  }
}

// Depending on the row width, the kernels keep sums in registers or in memory, and process elements
// as vectors or one by one. All are compared with f64, which runs the reference loops.
TEST(BatchNorm, RowsOfAnyWidthAreThoseOfF64) {
  manual_seed(3);
  for (const std::int64_t channels : {1, 3, 4, 8, 15, 16, 20, 32, 48, 64, 100, 128}) {
    const Dims shape = {3, channels, 5, 7};
    const Tensor x = randn(shape).to(bf16), dy = randn(shape).to(bf16),
                 shortcut = randn(shape).to(bf16);
    const auto run = [&](DType dtype, DType of_factors, MemoryFormat format, bool with_residual,
                         bool with_relu) {
      const auto laid = [&](const Tensor& t) {
        return t.to(dtype).clone().contiguous(format).requires_grad_();
      };
      const Tensor in = laid(x), residual = with_residual ? laid(shortcut) : Tensor();
      const Tensor gamma = (arange(channels).to(of_factors) / 64.0 + 0.5).requires_grad_(),
                   beta = (arange(channels).to(of_factors) / 128.0 - 0.25).requires_grad_();
      const Tensor y =
          batch_norm(in, gamma, beta, {}, {}, {.residual = residual, .relu = with_relu});
      y.backward(dy.to(dtype).contiguous(format));
      Tensors all = {y.detach(), in.grad(), gamma.grad(), beta.grad()};
      if (with_residual) all.push_back(residual.grad());
      return all;
    };
    for (const bool with_residual : {false, true})
      for (const bool with_relu : {false, true}) {
        const Tensors exact = run(f64, f64, MemoryFormat::contiguous, with_residual, with_relu);
        for (const DType dtype : {f32, bf16})
          for (const MemoryFormat format :
               {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
            const Tensors ours = run(dtype, f32, format, with_residual, with_relu);
            for (std::size_t i = 0; i < ours.size(); ++i)
              EXPECT_TRUE(all_close(ours[i].to(f64), exact[i], test::tolerance(f32, 3 * 35, 16),
                                    test::tolerance(ours[i].dtype(), 1)))
                  << channels << " channels, " << dtype << ' '
                  << (format == MemoryFormat::contiguous ? "planes " : "rows ") << i << ' '
                  << with_residual << with_relu;
          }
      }
  }
}

// Results larger than 24 MiB bypass the caches. Two copies of the same images have the statistics
// of one copy, and therefore the same outputs and image gradients, within the rounding of the sums.
TEST(BatchNorm, LargeTensorsAreTheirHalves) {
  manual_seed(5);
  for (const DType dtype : {f32, bf16}) {
    const std::int64_t images = dtype == f32 ? 4 : 8, channels = 64;
    const Dims shape = {images, channels, 112, 112};
    const auto nhwc = [&](const Tensor& t) {
      return t.contiguous(MemoryFormat::channels_last).requires_grad_();
    };
    const Tensor x = randn(shape).to(dtype), shortcut = randn(shape).to(dtype),
                 dy = randn(shape).to(dtype);
    const auto run = [&](bool twice) {
      const auto of = [&](const Tensor& t) { return twice ? cat({t, t}, 0) : t.clone(); };
      const Tensor in = nhwc(of(x)), residual = nhwc(of(shortcut));
      const Tensor y = batch_norm(in, ones({channels}), full({channels}, 0.25), {}, {},
                                  {.residual = residual, .relu = true});
      y.backward(of(dy).contiguous(MemoryFormat::channels_last));
      return Tensors{y.detach(), in.grad(), residual.grad()};
    };
    const Tensors half = run(false), whole = run(true);
    ASSERT_GT(whole[0].nbytes(), 24 << 20);
    for (std::size_t i = 0; i < half.size(); ++i)
      for (const std::int64_t first : {std::int64_t{0}, images})
        EXPECT_TRUE(all_close(whole[i].narrow(0, first, images), half[i],
                              test::tolerance(f32, 64, 4), test::tolerance(dtype, 1)))
            << i << ' ' << dtype << ' ' << first;
  }
}

// Without a residual, backward needs nothing of the output, whatever its layout.
TEST(BatchNorm, TheOutputMayBeWrittenTo) {
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
    for (const std::int64_t channels : {64, 67}) {
      const Dims shape = {3, channels, 4, 4};
      const Tensor values = randn(shape).contiguous(format), dy = randn(shape);
      const auto gradient = [&](bool is_written) {
        const Tensor x = values.clone().requires_grad_();
        Tensor y = batch_norm(x, ones({channels}), zeros({channels}), {}, {}, {.relu = true});
        if (is_written) y.add_(ones(shape));
        y.backward(dy);
        return x.grad();
      };
      EXPECT_TRUE(all_close(gradient(true), gradient(false), 0)) << channels;
    }
}

/// Fused or not, a sum with a residual of another dtype has the promoted dtype of both.
TEST(BatchNorm, AResidualOfAnotherDtypePromotes) {
  const Tensor x = randn({4, 3, 2, 2});
  const Tensor mean = zeros({3}), var = ones({3});
  for (const auto& [of_x, of_residual, of_y] :
       {std::tuple(bf16, f32, f32), {f32, bf16, f32}, {f32, f64, f64}, {bf16, f16, f32}}) {
    for (bool training : {true, false}) {
      const Tensor in = x.to(of_x), residual = randn(x.shape()).to(of_residual).requires_grad_();
      const Tensor y = batch_norm(in, {}, {}, mean.clone(), var.clone(),
                                  {.training = training, .residual = residual, .relu = true});
      const Tensor plain =
          batch_norm(in, {}, {}, mean.clone(), var.clone(), {.training = training});
      EXPECT_EQ(y.dtype(), of_y);
      EXPECT_TRUE(all_close(y, relu(plain + residual), 0)) << of_x << of_residual << training;
      y.sum().backward();
      EXPECT_EQ(residual.grad().dtype(), of_residual);
    }
  }
}

TEST(Norm, WhatDoesNotFitIsNamed) {
  Tensor x = ones({2, 4}), three = ones({3}), one = ones({1});
  EXPECT_ERROR(layer_norm(x, {}), ShapeError, "layer_norm: normalized_shape is empty");
  EXPECT_ERROR(layer_norm(x, {3}), ShapeError, "layer_norm: input [2, 4] does not end in [3]");
  EXPECT_ERROR(layer_norm(x, {4}, one), ShapeError, "layer_norm: gamma of shape [1]");
  EXPECT_ERROR(layer_norm(x, {4}, {}, three), ShapeError, "layer_norm: beta of shape [3]");
  EXPECT_ERROR(layer_norm(x.to(i64), {4}), DTypeError,
               "layer_norm: the input is i64, not a float; convert it with x.to(f32)");
  EXPECT_ERROR(group_norm(x, 2, one), ShapeError, "group_norm: gamma of shape [1]");
  EXPECT_ERROR(group_norm(x, 2, {}, three), ShapeError, "group_norm: beta of shape [3]");
  EXPECT_ERROR(group_norm(x, 3), ShapeError, "does not divide into 3 groups");
  EXPECT_ERROR(batch_norm(x, {}, {}, ones({4}), {}), Error,
               "batch_norm: running_mean and running_var must both be defined");
  EXPECT_ERROR(batch_norm(x, {}, {}, {}, ones({4})), Error,
               "batch_norm: running_mean and running_var must both be defined");
}

// (x - mean) is 0, so the result is the bias, however large x is.
TEST(Norm, OfAConstantIsTheBias) {
  for (MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    for (DType dtype : {f32, f64, bf16}) {
      const double size = dtype == bf16 ? 999424 : 1e6;  // as bf16 represents it
      const Tensor x = contiguous(full({2, 16, 4, 5}, size, {.dtype = dtype}), format);
      const Tensor gamma = full({16}, 1.7), beta = full({16}, 0.5);
      const Tensor mean = full({16}, size), variance = zeros({16});
      const Tensor expected = full(x.shape(), 0.5, {.dtype = dtype});
      for (const Tensor& y : {batch_norm(x, gamma, beta, {}, {}, {.training = true}),
                              batch_norm(x, gamma, beta, mean, variance, {.training = false}),
                              group_norm(x, 4, gamma, beta), group_norm(x, 16, gamma, beta)})
        EXPECT_TRUE(all_close(y, expected, 0)) << dtype;
      EXPECT_TRUE(all_close(layer_norm(x, {5}), zeros(x.shape(), {.dtype = dtype}), 0));
    }
  }
}

// As in PyTorch, this is not an error: there is nothing to learn.
TEST(BatchNorm, TakesAnEmptyBatchInTraining) {
  for (DType dtype : {f32, f64}) {
    const Tensor x = zeros({0, 3, 2, 2}, {.dtype = dtype}).requires_grad_();
    const Tensor gamma = ones({3}).requires_grad_(), beta = zeros({3}).requires_grad_();
    const Tensor mean = zeros({3}), variance = ones({3});
    const Tensor y = batch_norm(x, gamma, beta, mean, variance, {.training = true, .relu = true});
    EXPECT_EQ(y.shape(), x.shape());
    y.sum().backward();
    EXPECT_EQ(x.grad().shape(), x.shape());
    for (const Tensor& zero : {gamma.grad(), beta.grad(), mean, variance - 1})
      EXPECT_EQ(zero.to_vector(), (std::vector<float>{0, 0, 0}));
  }
  EXPECT_ERROR(batch_norm(zeros({1, 3}), {}, {}, {}, {}, {.training = true}), ShapeError,
               "batch_norm: training needs more than one value for each channel");
}

/// All layouts and the fused relu and residual, compared with f64, whose results PyTorch confirms
/// (extremes_test.cpp).
TEST(HugeValues, BatchNormInEachLayout) {
  const auto run = [](const Tensor& values, DType dtype, MemoryFormat format, double eps) {
    const Dims factors = {values.size(1)};
    Tensors xs = {as(values, dtype, format).requires_grad_(),
                  (values / amax(values) * 0.3).to(dtype).requires_grad_(),
                  linspace(0.5, 2, values.size(1), {.dtype = dtype}).requires_grad_(),
                  linspace(-1, 1, values.size(1), {.dtype = dtype}).requires_grad_()};
    Tensor mean = zeros(factors, {.dtype = dtype}), var = ones(factors, {.dtype = dtype});
    const Tensor y =
        batch_norm(xs[0], xs[2], xs[3], mean, var, {.eps = eps, .residual = xs[1], .relu = true});
    Tensors results = grad({y}, xs, {.grad_outputs = {sin(values).to(dtype)}});
    for (const Tensor& t : {y.detach(), mean, var}) results.push_back(t);
    return results;
  };
  for (const Dims& shape : {Dims{64, 16}, {4, 16, 6, 6}, {3, 5, 33}, {200, 3, 2, 2}}) {
    for (const double scale : {1e-22, 1e18, 1e20, 1e30}) {
      const Tensor base = fill(shape, 3, 1.0, 0.2) * scale;
      for (const auto format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        if (format == MemoryFormat::channels_last && shape.size() != 4) continue;
        const double eps = scale < 1 ? 1e-46 : 1e-5;
        const Tensors got = run(base, f32, format, eps), right = run(base, f64, format, eps);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const Tensor expected = right[i].to(f32);  // inf for a variance that f32 cannot hold
          const double largest = std::min(amax(abs(expected)).item<double>(), 3e38);
          EXPECT_TRUE(all_close(got[i], expected, 2e-5 * largest))
              << shape << " " << scale << " " << (format == MemoryFormat::channels_last) << " " << i
              << ": " << got[i] << expected;
        }
      }
    }
  }
}

// Partial sums overflow to both infinities, whose sum is NaN.
TEST(HugeValues, SumsThatOverflow) {
  for (const auto& [shape, scale] : std::vector<std::pair<Dims, double>>{
           {{1, 4, 4096}, 3e35}, {{2, 4, 32768}, 1e36}, {{8192, 4}, 3e36}}) {
    const Tensor x = fill(shape, 3, 1.0, 0.2) * scale;
    const Tensor got = batch_norm(x.to(f32), {}, {}, {}, {}), right = batch_norm(x, {}, {}, {}, {});
    EXPECT_TRUE(all_close(got, right.to(f32), 1e-4)) << "batch_norm " << shape;
    if (shape.size() < 3) continue;
    EXPECT_TRUE(all_close(group_norm(x.to(f32), 2), group_norm(x, 2).to(f32), 1e-4))
        << "group_norm " << shape;
  }
}

}  // namespace
}  // namespace rondo
