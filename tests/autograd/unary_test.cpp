// Unary functions in edge cases: zeros, NaN, bounds, integers. Expected numbers are PyTorch's.

#include "autograd/ops/unary.h"

#include <cmath>
#include <limits>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::all_close;
using Values = std::vector<double>;

using test::leaf;

TEST(Unary, NegationKnowsTheSignOfZero) {
  Tensor y = neg(tensor<float>({0.0f, -0.0f}));
  EXPECT_TRUE(std::signbit(y.to_vector<float>()[0]));
  EXPECT_FALSE(std::signbit(y.to_vector<float>()[1]));
  EXPECT_FALSE(std::signbit(abs(tensor<float>({-0.0f})).item()));
}

TEST(Unary, TheSmallestIntegerHasNoAbsoluteValue) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(abs(tensor<std::int64_t>({least})).item<std::int64_t>(), least);
  EXPECT_EQ(neg(tensor<std::int64_t>({least})).item<std::int64_t>(), least);
}

TEST(Unary, RoundingSavesNothingAndNamesItself) {
  std::pair<Tensor (*)(const Tensor&), const char*> ops[] = {
      {sign, "sign"}, {floor, "floor"}, {ceil, "ceil"}, {round, "round"}, {trunc, "trunc"}};
  for (auto [f, name] : ops) {
    Tensor x = leaf({1.5, -2.5}), inner = x * 2.0, y = f(inner);
    EXPECT_STREQ(autograd_meta(y).grad_fn->name(), name);
    inner.add_(tensor<double>({1, 1}));
    y.sum().backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (Values{0, 0})) << name;
  }
}

TEST(Clamp, TheUpperBoundIsTheStronger) {
  EXPECT_EQ(clamp(tensor<double>({0, 1.5, 5}), 2, 1).to_vector<double>(), (Values{1, 1, 1}));
}

TEST(Clamp, NaN) {
  Tensor x = tensor<double>({1, NAN, 5}), all_nan = full({3}, NAN, {.dtype = f64});
  EXPECT_TRUE(all_close(clamp(x, 2, 3), tensor<double>({2, NAN, 3}), 0));
  EXPECT_TRUE(all_close(clamp(x, NAN, 3), all_nan, 0));
  EXPECT_TRUE(all_close(clamp(x, 2, NAN), all_nan, 0));
}

TEST(Clamp, IntegersMeetTheBoundsAsPromotionSays) {
  Tensor x = tensor<std::int64_t>({1, 5});
  EXPECT_TRUE(test::identical(clamp(x, 2, 3), tensor<std::int64_t>({2, 3})));
  EXPECT_TRUE(test::identical(clamp(x, 1.5, 3.5), tensor<float>({1.5f, 3.5f})));
  EXPECT_TRUE(test::identical(clamp(x, 2, INFINITY), tensor<float>({2, 5})));
  EXPECT_TRUE(test::identical(clamp(x.to(u8), -1, 300), tensor<std::uint8_t>({1, 5})));
  EXPECT_THROW(clamp(x.to(u8), 300, 400), Error);
  EXPECT_THROW(clamp(x.to(u8), -5, -1), Error);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(test::identical(clamp(x, 2, most), tensor<std::int64_t>({2, 5})));
}

TEST(Clamp, GradientPassesBetweenTheBounds) {
  auto gradient = [](Values values, double low, double high) {
    Tensor x = leaf(values);
    clamp(x, low, high).sum().backward();
    return x.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient({0, 0.5, 1, 2, -1, NAN}, 0, 1), (Values{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(gradient({0, 1.5, 5}, 2, 1), (Values{0, 0, 0}));
  EXPECT_EQ(gradient({0.5, 2}, NAN, 1), (Values{0, 0}));
  EXPECT_EQ(gradient({INFINITY, 3, 2, -INFINITY}, 2, INFINITY), (Values{1, 1, 0, 0}));
  EXPECT_EQ(gradient({INFINITY, 3, 2, -INFINITY}, -INFINITY, 3), (Values{0, 0, 1, 1}));
}

TEST(Unary, ClampKeepsIntegersBeyond53Bits) {
  constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1;
  const Tensor x = tensor<std::int64_t>({odd, -odd, INT64_MAX, INT64_MIN, 7});
  EXPECT_EQ(clamp(x, -odd, odd).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{odd, -odd, odd, -odd, 7}));
  EXPECT_EQ(clamp(x, INT64_MIN, INT64_MAX).to_vector<std::int64_t>(), x.to_vector<std::int64_t>());
  EXPECT_EQ(clamp(x, 3, 1).to_vector<int>(), (std::vector<int>{1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace rondo
