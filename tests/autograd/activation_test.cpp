// Activations at infinities and NaN, with both ways of computing their derivatives, and their
// errors.

#include "autograd/ops/activation.h"

#include <cmath>

#include "autograd/engine.h"
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

}  // namespace
}  // namespace rondo
