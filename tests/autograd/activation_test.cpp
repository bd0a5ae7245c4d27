// Activations at infinities and NaN, with both ways of computing their derivatives, and their
// errors.

#include "autograd/ops/activation.h"

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/statistics.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::all_close;

TEST(Activation, DerivativesAtInfinitiesAndNaN) {
  const float inf = INFINITY;
  auto gradient = [inf](auto f, bool create_graph) {
    Tensor x = tensor<float>({-1, NAN, 0, 2}).requires_grad_();
    Tensor dy = tensor<float>({inf, 3, inf, 1});
    return grad({f(x)}, {x}, {.grad_outputs = {dy}, .create_graph = create_graph})[0].detach();
  };
  for (bool create_graph : {false, true}) {
    EXPECT_TRUE(all_close(gradient(relu, create_graph), tensor<float>({0, 3, 0, 1}), 0));
    auto leaky = [](const Tensor& x) { return leaky_relu(x, 0.25); };
    EXPECT_TRUE(all_close(gradient(leaky, create_graph), tensor<float>({inf, 0.75f, inf, 1}), 0));
    auto flat = [](const Tensor& x) { return leaky_relu(x, 0); };
    EXPECT_TRUE(all_close(gradient(flat, create_graph), tensor<float>({NAN, 0, NAN, 1}), 0));
    auto outside = [&](auto f) {  // beyond -3 and 3, and at them
      Tensor x = tensor<float>({-5, -3, 3, 5}).requires_grad_();
      Tensor dy = tensor<float>({inf, inf, inf, inf});
      return grad({f(x)}, {x}, {.grad_outputs = {dy}, .create_graph = create_graph})[0].detach();
    };
    EXPECT_TRUE(all_close(outside(hardsigmoid), tensor<float>({0, 0, 0, 0}), 0));
    EXPECT_TRUE(all_close(outside(hardswish), tensor<float>({0, 0, inf, inf}), 0));
  }
}

TEST(Activation, FloatsAreWanted) {
  Tensor x = tensor<std::int64_t>({-1, 2});
  EXPECT_ERROR(leaky_relu(x), DTypeError, "leaky_relu: the input is i64, not a float");
  EXPECT_ERROR(dropout(x), DTypeError, "dropout: the input is i64, not a float");
  EXPECT_TRUE(test::identical(dropout(x, 0.5, false), x));
  EXPECT_TRUE(test::identical(relu(x), tensor<std::int64_t>({0, 2})));
}

// As PyTorch does: these have results that are not integers, so they are computed in f32.
TEST(Activation, IntegersBecomeFloats) {
  const Tensor integers = tensor<std::int64_t>({1, 2, 3}), x = integers.to(f32);
  EXPECT_TRUE(test::identical(sigmoid(integers), sigmoid(x)));
  EXPECT_TRUE(test::identical(tanh(integers), tanh(x)));
  EXPECT_TRUE(test::identical(logsumexp(integers, {0}), logsumexp(x, {0})));
  EXPECT_TRUE(test::identical(cov(integers), cov(x)));
  EXPECT_TRUE(test::identical(sigmoid(integers == 2), sigmoid((x == 2).to(f32))));
  Tensor kept = integers.clone();
  EXPECT_ERROR(kept.sigmoid_(), DTypeError, "i64");
}

TEST(Activation, SoftplusOfNaN) {
  for (const double beta : {1.0, 2.0}) {
    Tensor x = tensor<float>({NAN, 0, 30}).requires_grad_();
    softplus(x, beta, 20).sum().backward();
    EXPECT_TRUE(all_close(x.grad(), tensor<float>({NAN, 0.5F, 1}), 0));
  }
}

// Numbers at the halves' limits, where sigmoid is 0 or 1.
TEST(Activation, GluFarFromZero) {
  for (const bool create_graph : {false, true}) {
    Tensor x = tensor<float>({3, -2, 5, 100, -200, 0}).requires_grad_();
    const Tensor y = glu(x, 0);
    EXPECT_TRUE(all_close(y.detach(), tensor<float>({3, 0, 2.5}), 0));
    const Tensor dx =
        grad({y}, {x}, {.grad_outputs = {ones({3})}, .create_graph = create_graph})[0];
    EXPECT_TRUE(all_close(dx.detach(), tensor<float>({1, 0, 0.5, 0, 0, 1.25}), 1e-30));
  }
}

}  // namespace
}  // namespace rondo
