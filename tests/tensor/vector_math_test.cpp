// Elementary functions of whole vectors (tensor/cpu/isa/vector_math.h) and the ops made of them:
// f32 against f64 over all exponents. A value must not depend on the position of its element.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss.h"
#include "support/support.h"
#include "tensor/backend.h"

namespace rondo {
namespace {

using test::all_close, test::as;

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor unary(UnaryOp op, const Tensor& x) {
  Tensor y = Tensor::empty_like(x);
  backend(x).unary(op, x, y, {});
  return y;
}

/// Floats of all exponents and both signs, evenly spaced in their bit patterns, and special values.
std::vector<float> floats_of_all_kinds() {
  std::vector<float> values{0.0F, -0.0F, infinity, -infinity, NAN, 1.0F, -1.0F, 88.8F, -104.0F};
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65'521) {
    const auto half = static_cast<std::uint32_t>(bits);
    float value;
    std::memcpy(&value, &half, sizeof value);
    if (!std::isnan(value)) values.push_back(value);  // half of all NaNs are signalling
  }
  return values;
}

/// The distance from |y| to the next float.
double ulp(float y) {
  return std::nextafter(std::abs(y), infinity) - static_cast<double>(std::abs(y));
}

TEST(VectorMath, ErrsByFourUlpsAtMost) {
  const std::vector<float> values = floats_of_all_kinds();
  const Tensor x = tensor(values);
  for (const auto& [op, name] : {std::pair{UnaryOp::exp, "exp"},
                                 {UnaryOp::expm1, "expm1"},
                                 {UnaryOp::log, "log"},
                                 {UnaryOp::log1p, "log1p"},
                                 {UnaryOp::sin, "sin"},
                                 {UnaryOp::cos, "cos"},
                                 {UnaryOp::tan, "tan"},
                                 {UnaryOp::sinh, "sinh"},
                                 {UnaryOp::cosh, "cosh"},
                                 {UnaryOp::tanh, "tanh"},
                                 {UnaryOp::asin, "asin"},
                                 {UnaryOp::acos, "acos"},
                                 {UnaryOp::atan, "atan"},
                                 {UnaryOp::erf, "erf"}}) {
    const auto got = unary(op, x).to_vector<float>();
    const auto want = unary(op, as(x, f64)).to_vector<double>();
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto rounded = static_cast<float>(want[i]);
      if (std::isnan(rounded) || std::isinf(rounded) || rounded == 0) {
        EXPECT_TRUE(std::isnan(rounded)
                        ? std::isnan(got[i])
                        : got[i] == rounded && std::signbit(got[i]) == std::signbit(rounded))
            << name << " of " << values[i] << " is " << got[i] << ", not " << rounded;
        continue;
      }
      const double error = std::abs(got[i] - want[i]) / ulp(rounded);
      if (!(error <= worst)) worst = error, where = i;
    }
    EXPECT_LE(worst, 4) << name << " of " << values[where];
  }
}

TEST(VectorMath, PowersErrByFourUlpsAtMost) {
  const std::vector<float> values = floats_of_all_kinds();
  const Tensor x = tensor(values);
  for (const double exponent : {2.0, 3.0, 0.5, -1.0, 2.5, 0.0}) {
    Tensor y = Tensor::empty_like(x);
    backend(x).unary(UnaryOp::pow_scalar, x, y, {.alpha = exponent});
    const auto got = y.to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double want = std::pow(static_cast<double>(values[i]), exponent);
      const auto rounded = static_cast<float>(want);
      if (std::isnan(rounded)) {
        EXPECT_TRUE(std::isnan(got[i])) << values[i] << " to the " << exponent;
      } else if (got[i] != rounded) {
        EXPECT_LE(std::abs(got[i] - want), 4 * ulp(rounded)) << values[i] << " to the " << exponent;
      }
    }
  }
}

/// Both have the same numbers, and NaNs at the same positions.
bool same(const Tensor& a, const Tensor& b) {
  const auto u = a.to(f32).to_vector<float>(), v = b.to(f32).to_vector<float>();
  return std::equal(u.begin(), u.end(), v.begin(), v.end(), [](float p, float q) {
    return std::isnan(p) ? std::isnan(q) : p == q && std::signbit(p) == std::signbit(q);
  });
}

class Place : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(VectorMath, Place, ::testing::Values(f32, bf16));

/// Dense bf16 is computed in one loop, every third element of it through a row of f32.
TEST_P(Place, DoesNotChangeAResult) {
  const Tensor x = randn({400}).to(GetParam()), g = randn({400}).to(GetParam());
  const auto expect_parts = [](auto apply, const Tensor& a, const Tensor& b) {
    const Tensor all = apply(a, b);
    for (std::int64_t first = 0; first < 18; ++first) {
      for (std::int64_t n = 1; n < 40; ++n) {
        const Tensor part = apply(a.narrow(0, first, n), b.narrow(0, first, n));
        ASSERT_TRUE(same(part, all.narrow(0, first, n))) << first << ' ' << n;
      }
    }
    const auto third = [](const Tensor& t) { return slice(t, 0, 0, 400, 3); };
    ASSERT_TRUE(same(apply(third(a), third(b)), third(all)));
    ASSERT_TRUE(same(apply(a.to(f32), b.to(f32)).to(a.dtype()), all));
  };
  for (int i = 0; i <= static_cast<int>(UnaryOp::fake_quantize); ++i) {
    SCOPED_TRACE(concat("unary op ", i));
    const auto apply = [&](const Tensor& a, const Tensor&) {
      Tensor y = Tensor::empty_like(a);
      backend(a).unary(static_cast<UnaryOp>(i), a, y, {.alpha = 0.7, .beta = -2, .gamma = 2});
      return y;
    };
    ASSERT_NO_FATAL_FAILURE(expect_parts(apply, x, x));
  }
  for (int i = 0; i <= static_cast<int>(BinaryOp::fake_quantize_backward); ++i) {
    SCOPED_TRACE(concat("binary op ", i));
    const auto apply = [&](const Tensor& a, const Tensor& b) {
      Tensor y = Tensor::empty_like(a);
      backend(a).binary(static_cast<BinaryOp>(i), a, b, y, {.alpha = 0.7, .beta = -2, .gamma = 2});
      return y;
    };
    ASSERT_NO_FATAL_FAILURE(expect_parts(apply, g, x));
  }
}

Tensor softmax_of(bool log, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), {.dtype = x.dtype()});
  backend(x).softmax(log, x, 1, y);
  return y;
}

/// Lines that end at every position within a vector; one has only -inf.
TEST(SoftmaxLine, IsThatOfF64WhateverItsLength) {
  for (std::int64_t n : {1, 2, 3, 7, 8, 10, 15, 16, 17, 31, 32, 33, 50, 100, 1000}) {
    Tensor x = randn({5, n}) * 8;
    x.select(0, 1).fill_(-infinity);
    if (n > 1) x.narrow(0, 2, 1).narrow(1, n - 1, 1).fill_(-infinity);
    x.narrow(0, 3, 1).narrow(1, n / 2, 1).fill_(NAN);
    x.narrow(0, 4, 1).narrow(1, n / 2, 1).fill_(infinity);
    for (const bool log : {false, true}) {
      const auto got = softmax_of(log, x).to_vector<float>();
      const auto want = softmax_of(log, as(x, f64)).to_vector<double>();
      for (std::int64_t i = 0; i < 5 * n; ++i) {
        if (std::isnan(want[i]) || std::isinf(want[i])) {
          EXPECT_EQ(std::isnan(got[i]), std::isnan(want[i])) << "line " << i / n << " of " << n;
        } else {
          // One ulp each for x - top, exp, the sum and the product; x - top is up to 60.
          const double scale = log ? 64 : std::max(1e-30, want[i] * 64);
          EXPECT_LE(std::abs(got[i] - want[i]), scale * 1.2e-7) << "line " << i / n << " of " << n;
        }
      }
      const Tensor in_place = x.clone();
      backend(x).softmax(log, in_place, 1, in_place);
      EXPECT_TRUE(same(in_place, softmax_of(log, x)));
    }
  }
}

/// Along the last dimension and another one, with dense and strided gradients.
TEST(SoftmaxLine, GradientIsThatOfF64WhateverItsLength) {
  const auto gradient = [](bool log, const Tensor& dy, const Tensor& y, std::int64_t dim) {
    const Tensor dx = Tensor::empty(y.shape(), {.dtype = y.dtype()});
    backend(y).softmax_backward(log, dy, y, dim, dx);
    return as(dx, f64);
  };
  for (const std::int64_t n : {1, 2, 7, 15, 16, 17, 33, 100, 1000}) {
    for (const bool log : {false, true}) {
      const Tensor y = softmax_of(log, randn({4, n}) * 4), dy = randn({4, n});
      const Tensor want = gradient(log, as(dy, f64), as(y, f64), 1);
      // dy, Σ dy y and exp(y) Σ dy are up to 4 and, for log_softmax, sqrt(n) times that.
      const double scale = log ? 4 * std::sqrt(static_cast<double>(n)) : 4;
      const double tolerance = test::tolerance(f32, 4, scale);
      EXPECT_TRUE(all_close(gradient(log, dy, y, 1), want, tolerance)) << n;
      const Tensor down = as(y.t(), f32), dy_down = as(dy.t(), f32);
      EXPECT_TRUE(all_close(gradient(log, dy_down, down, 0), as(want.t(), f64), tolerance)) << n;
      EXPECT_TRUE(all_close(gradient(log, dy_down.t(), y, 1), want, tolerance)) << n;
      EXPECT_TRUE(all_close(gradient(log, as(dy, bf16), as(y, bf16), 1),
                            gradient(log, as(as(dy, bf16), f64), as(as(y, bf16), f64), 1),
                            tolerance, 0x1p-8))
          << n;
    }
  }
}

TEST(SoftmaxLine, CrossEntropyIsThatOfF64WhateverTheLength) {
  for (std::int64_t n : {1, 2, 7, 10, 16, 17, 33, 100, 1000}) {
    const Tensor target = randint(0, n, {6});
    Tensor x = randn({6, n}) * 8, wide = as(x, f64);
    x.requires_grad_();
    wide.requires_grad_();
    for (const double smoothing : {0.0, 0.1}) {
      Tensor loss = cross_entropy(x, target, {.label_smoothing = smoothing});
      Tensor want = cross_entropy(wide, target, {.label_smoothing = smoothing});
      // As above: x - top is up to 60, and the error is one ulp of that.
      EXPECT_NEAR(loss.item<float>(), want.item<double>(), 64 * 1.2e-7);
      x.zero_grad();
      wide.zero_grad();
      loss.backward();
      want.backward();
      EXPECT_TRUE(all_close(as(x.grad(), f64), wide.grad(), 64 * 1.2e-7, 0)) << n;
    }
  }
}

}  // namespace
}  // namespace rondo
