// Initialisers: gains and fans against closed forms; bounds, means and variances within five
// standard errors of the formulas; orthogonality to f64's precision.

#include "nn/init.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using namespace nn::init;

struct Moments {
  double mean = 0, variance = 0, least = 0, largest = 0;
};

Moments moments_of(const Tensor& x) {
  Moments m;
  auto values = x.to_vector<double>();
  for (double v : values) m.mean += v / static_cast<double>(values.size());
  for (double v : values) {
    m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  }
  auto [least, largest] = std::minmax_element(values.begin(), values.end());
  m.least = *least;
  m.largest = *largest;
  return m;
}

/// Mean 0 and the given standard deviation. The variance of the sample variance of n samples is
/// (kurtosis - 1) / n sigma^4, at most 2 / n for the distributions here.
void expect_centered(const Tensor& x, double sigma) {
  double n = static_cast<double>(x.numel());
  Moments m = moments_of(x);
  EXPECT_NEAR(m.mean, 0, 5 * sigma / std::sqrt(n));
  EXPECT_NEAR(m.variance, sigma * sigma, 5 * sigma * sigma * std::sqrt(2 / n));
}

void expect_uniform(const Tensor& x, double bound) {
  Moments m = moments_of(x);
  EXPECT_GE(m.least, -bound);
  EXPECT_LE(m.largest, bound);
  EXPECT_GT(m.largest, 0.99 * bound);
  expect_centered(x, bound / std::sqrt(3.0));
}

class Init : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(3); }
  Tensor w = empty({64, 32, 3, 3});  // fan in 288, fan out 576
};

TEST_F(Init, GainsAreThePublishedOnes) {
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::linear), 1);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::conv), 1);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::sigmoid), 1);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::leaky_relu), std::sqrt(2 / 1.0001));
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::leaky_relu, 1), 1);
  EXPECT_DOUBLE_EQ(calculate_gain(Nonlinearity::selu), 0.75);
}

TEST_F(Init, FansCountTheReceptiveField) {
  EXPECT_EQ(calculate_fans(w).in, 288);
  EXPECT_EQ(calculate_fans(w).out, 576);
  EXPECT_EQ(calculate_fans(empty({5, 7})).in, 7);
  EXPECT_EQ(calculate_fans(empty({5, 7})).out, 5);
  EXPECT_THROW(calculate_fans(empty({5})), ShapeError);
}

TEST_F(Init, Kaiming) {
  expect_uniform(kaiming_uniform_(w), std::sqrt(6.0 / 288));
  expect_uniform(kaiming_uniform_(w, {.slope = std::sqrt(5.0)}), 1 / std::sqrt(288.0));
  expect_uniform(
      kaiming_uniform_(w, {.mode = FanMode::fan_out, .nonlinearity = Nonlinearity::linear}),
      std::sqrt(3.0 / 576));
  expect_centered(kaiming_normal_(w), std::sqrt(2.0 / 288));
  expect_centered(
      kaiming_normal_(w, {.mode = FanMode::fan_out, .nonlinearity = Nonlinearity::relu}),
      std::sqrt(2.0 / 576));
}

TEST_F(Init, Xavier) {
  expect_uniform(xavier_uniform_(w), std::sqrt(6.0 / 864));
  expect_uniform(xavier_uniform_(w, 2), 2 * std::sqrt(6.0 / 864));
  expect_centered(xavier_normal_(w), std::sqrt(2.0 / 864));
}

TEST_F(Init, Plain) {
  expect_uniform(uniform_(w, -0.3, 0.3), 0.3);
  expect_centered(normal_(w, 0, 0.7), 0.7);
  EXPECT_NEAR(moments_of(normal_(w, 4, 0.5)).mean, 4, 0.05);
  EXPECT_EQ(moments_of(zeros_(w)).largest, 0);
  EXPECT_EQ(moments_of(ones_(w)).least, 1);
  EXPECT_EQ(moments_of(constant_(w, -2.5)).largest, -2.5);
}

TEST_F(Init, TruncatedNormal) {
  // Between -2 and 2 sigma the variance is 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.77374.
  Moments m = moments_of(trunc_normal_(w, 0, 0.1, -0.2, 0.2));
  EXPECT_GE(m.least, -0.2f);
  EXPECT_LE(m.largest, 0.2f);
  EXPECT_GT(m.largest, 0.19);
  expect_centered(w, 0.1 * std::sqrt(0.77374));
  // Far from the mean: all samples are in a narrow window of the tail, most near its inner end.
  m = moments_of(trunc_normal_(w, 0, 1, 4, 5));
  EXPECT_GE(m.least, 4);
  EXPECT_LE(m.largest, 5);
  EXPECT_NEAR(m.mean, 4.21683, 0.008);
}

TEST_F(Init, OrthogonalRowsOrColumns) {
  for (Dims shape : {Dims{5, 5}, Dims{3, 7}, Dims{7, 3}, Dims{1, 4}, Dims{8, 3, 2, 2}}) {
    Tensor x = empty(shape, {.dtype = f64});
    orthogonal_(x, 3);
    Tensor a = x.reshape({shape[0], -1}) / 3.0;
    bool wide = a.size(0) <= a.size(1);
    Tensor gram = wide ? a.matmul(a.t()) : a.t().matmul(a);
    EXPECT_TRUE(all_close(gram, eye(gram.size(0), -1, {.dtype = f64}), tolerance(f64, 16)))
        << shape;
  }
}

TEST_F(Init, EyeAndDiracPassTheirInputOn) {
  const Tensor matrix = randn({3, 5});
  EXPECT_TRUE(identical(matmul(eye_(empty({4, 3})), matrix).narrow(0, 0, 3), matrix));
  EXPECT_EQ(eye_(empty({4, 3})).sum().item(), 3);
  const Tensor image = randn({1, 2, 7, 9});
  const Tensor filters = dirac_(randn({5, 2, 3, 3}));
  EXPECT_EQ(filters.sum().item(), 2);
  const Tensor y = conv2d(image, filters, {}, {.padding = 1});
  EXPECT_TRUE(identical(y.narrow(1, 0, 2), image));
  EXPECT_TRUE(identical(y.narrow(1, 2, 3), zeros({1, 3, 7, 9})));
  // Two groups of two filters, each for two channels; windows of an even size, and one dimension.
  const Tensor wide = randn({1, 4, 6, 6});
  EXPECT_TRUE(identical(
      conv2d(wide, dirac_(randn({4, 2, 3, 3}), 2), {}, {.padding = 1, .groups = 2}), wide));
  EXPECT_EQ(dirac_(randn({1, 1, 4})).select(0, 0).select(0, 0).argmax(0).item<std::int64_t>(), 2);
  EXPECT_EQ(dirac_(randn({2, 3, 1, 3, 5})).sum().item(), 2);
}

TEST_F(Init, SparseHasZerosInEachColumn) {
  const Tensor x = sparse_(empty({10, 300}), 0.25, 0.5);
  EXPECT_TRUE(identical(eq(x, 0.0).to(i64).sum({0}), full({300}, 3, {.dtype = i64})));
  EXPECT_NEAR(std::sqrt(x.square().sum().item() / (7 * 300)), 0.5, 0.05);  // 3 sigma are 0.023
  EXPECT_GT(eq(x.narrow(0, 9, 1), 0.0).to(f32).mean().item(), 0.1);        // all rows are chosen
}

TEST_F(Init, DrawsFromTheGeneratorGivenAndLeavesTheTapeAlone) {
  Generator a(11), b(11), c(12);
  Tensor x = empty({4, 6}), y = empty({4, 6}), z = empty({4, 6});
  x.requires_grad_();
  EXPECT_TRUE(identical(kaiming_normal_(x, {}, a).detach(), kaiming_normal_(y, {}, b)));
  EXPECT_FALSE(identical(y, kaiming_normal_(z, {}, c)));
  EXPECT_TRUE(x.is_leaf());
  orthogonal_(x);
  trunc_normal_(x);
  EXPECT_TRUE(x.is_leaf() && x.requires_grad());
}

TEST_F(Init, WorksInEveryFloatingDtype) {
  for (DType dtype : {f64, f32, bf16, f16}) {
    Tensor x = empty({64, 64}, {.dtype = dtype});
    expect_centered(kaiming_normal_(x), std::sqrt(2.0 / 64));
    expect_centered(trunc_normal_(x, 0, 1, -2, 2), std::sqrt(0.77374));
  }
}

TEST_F(Init, BadArguments) {
  EXPECT_THROW(uniform_(w, 1, 0), Error);
  EXPECT_THROW(normal_(w, 0, -1), Error);
  EXPECT_THROW(trunc_normal_(w, 0, 0), Error);
  EXPECT_THROW(trunc_normal_(w, 0, 1, 2, 2), Error);
  EXPECT_THROW(orthogonal_(empty({4})), ShapeError);
  EXPECT_ERROR(eye_(empty({4})), ShapeError, "init::eye_: needs a matrix, but the shape is [4]");
  EXPECT_ERROR(dirac_(empty({4, 3})), ShapeError,
               "init::dirac_: needs the weight of a convolution");
  EXPECT_ERROR(dirac_(empty({4, 3, 3}), 3), ShapeError, "3 groups do not divide 4 filters");
  EXPECT_ERROR(dirac_(empty({4, 3, 3}), 0), ShapeError, "0 groups do not divide 4 filters");
  EXPECT_ERROR(sparse_(empty({4, 4}), 0.5, -1), Error,
               "init::sparse_: the standard deviation is -1, but must not be negative");
  EXPECT_ERROR(sparse_(empty({4}), 0.5), ShapeError, "init::sparse_: needs a matrix");
  EXPECT_ERROR(sparse_(empty({4, 4}), 1.5), Error,
               "the sparsity is 1.5, but must be between 0 and 1");
  EXPECT_THROW(xavier_normal_(empty({4})), ShapeError);
  EXPECT_THROW(kaiming_normal_(empty({4})), ShapeError);
}

TEST_F(Init, EmptyWeightsStayEmpty) {
  for (Dims shape : {Dims{0, 3}, Dims{3, 0}}) {
    EXPECT_EQ(kaiming_uniform_(empty(shape)).numel(), 0);
    EXPECT_EQ(orthogonal_(empty(shape)).numel(), 0);
  }
}

}  // namespace
}  // namespace rondo::test
