// Elementary functions of whole vectors (tensor/cpu/isa/vector_math.h) and what is made of them:
// f32 against f64, over all exponents, and that a value does not depend on where its element lies.

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

/// Floats of all exponents and both signs, evenly in their bits, and the special ones.
std::vector<float> floats_of_all_kinds() {
  std::vector<float> values{0.0F, -0.0F, infinity, -infinity, NAN, 1.0F, -1.0F, 88.8F, -104.0F};
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65'521) {
    const auto half = static_cast<std::uint32_t>(bits);
    float value;
    std::memcpy(&value, &half, sizeof value);
    if (!std::isnan(value)) values.push_back(value);  // half of the others are signalling ones
  }
  return values;
}

/// From |y| to the next float.
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

TEST(VectorMath, DoesNotDependOnThePlace) {
  const Tensor x = randn({400}), g = randn({400});
  for (const UnaryOp op : {UnaryOp::exp, UnaryOp::log, UnaryOp::tanh, UnaryOp::gelu, UnaryOp::silu,
                           UnaryOp::softplus}) {
    const auto all = unary(op, x).to_vector<float>();
    for (std::int64_t first = 0; first < 18; ++first) {
      for (std::int64_t n = 1; n < 40; ++n) {
        const auto part = unary(op, x.narrow(0, first, n)).to_vector<float>();
        for (std::int64_t i = 0; i < n; ++i)
          ASSERT_TRUE(part[i] == all[first + i] || std::isnan(part[i])) << first << ' ' << n;
      }
    }
    const auto every_third = unary(op, slice(x, 0, 0, 400, 3)).to_vector<float>();
    for (std::size_t i = 0; i < every_third.size(); ++i)
      ASSERT_TRUE(every_third[i] == all[3 * i] || std::isnan(all[3 * i]));
  }
  for (const BinaryOp op : {BinaryOp::gelu_backward, BinaryOp::silu_backward, BinaryOp::pow}) {
    const auto apply = [op](const Tensor& a, const Tensor& b) {
      Tensor y = Tensor::empty(a.shape());
      backend(a).binary(op, a, b, y, {});
      return y.to_vector<float>();
    };
    const auto all = apply(g, x);
    for (std::int64_t n = 1; n < 40; ++n) {
      const auto part = apply(g.narrow(0, 5, n), x.narrow(0, 5, n));
      for (std::int64_t i = 0; i < n; ++i)
        ASSERT_TRUE(part[i] == all[5 + i] || std::isnan(part[i])) << n;
    }
  }
}

Tensor softmax_of(bool log, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), {.dtype = x.dtype()});
  backend(x).softmax(log, x, 1, y);
  return y;
}

/// Lines whose ends lie in every place of a vector, one without a number above -inf among them.
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
          // An ulp each of x - top, of exp, of the sum and of the product; x - top is up to 60.
          const double scale = log ? 64 : std::max(1e-30, want[i] * 64);
          EXPECT_LE(std::abs(got[i] - want[i]), scale * 1.2e-7) << "line " << i / n << " of " << n;
        }
      }
      if (log) continue;
      const Tensor in_place = x.clone();
      backend(x).softmax(false, in_place, 1, in_place);
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + n, in_place.to_vector<float>().begin()));
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
