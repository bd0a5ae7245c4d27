// The composed activations against PyTorch: results and gradients, and at extreme values also those
// of 16-bit floats (tests/golden/make_activations.py).

#include <cmath>
#include <functional>
#include <map>

#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

const Golden& activations() {
  static const Golden golden("activations.txt");
  return golden;
}

const std::map<std::string, std::function<Tensor(const Tensor&)>> elementwise = {
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"elu.2", [](const Tensor& x) { return elu(x, 2); }},
    {"selu", selu},
    {"celu", [](const Tensor& x) { return celu(x); }},
    {"celu.2", [](const Tensor& x) { return celu(x, 2); }},
    {"mish", mish},
    {"rrelu", [](const Tensor& x) { return rrelu(x); }},
    {"relu6", [](const Tensor& x) { return relu6(x * 3); }},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }},
    {"hardtanh.2", [](const Tensor& x) { return hardtanh(x, -0.5, 2); }},
    {"hardsigmoid", hardsigmoid},
    {"hardswish", hardswish},
    {"hardshrink", [](const Tensor& x) { return hardshrink(x); }},
    {"hardshrink.2", [](const Tensor& x) { return hardshrink(x, 2); }},
    {"softshrink", [](const Tensor& x) { return softshrink(x); }},
    {"softshrink.2", [](const Tensor& x) { return softshrink(x, 2); }},
    {"tanhshrink", tanhshrink},
    {"threshold", [](const Tensor& x) { return threshold(x, 0.1, -2); }},
    {"softplus.2", [](const Tensor& x) { return softplus(x, 2, 3); }},
    {"softsign", softsign},
    {"logsigmoid", logsigmoid},
};

TEST(ComposedActivation, AgreeWithPyTorch) {
  const Golden& golden = activations();
  for (const auto& [name, f] : elementwise)
    expect_case(golden, name, [&f = f](X x) { return f(x[0]); });
  expect_case(golden, "glu", [](X x) { return glu(x[0], 1); });
  expect_case(golden, "softmin", [](X x) { return softmin(x[0], 1); });
  expect_case(
      golden, "prelu.1", [](X x) { return prelu(x[0], x[1]); }, 24);
  expect_case(
      golden, "prelu.4", [](X x) { return prelu(x[0], x[1]); }, 6);
}

/// The gradient at NaN is not compared: some of PyTorch's kernels pass it on, some do not.
TEST(ComposedActivation, AgreeWithPyTorchAtExtremeValues) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Tensor values = activations()[concat("extremes.", dtype)];
    for (const auto& [name, f] : elementwise) {
      const std::string id = concat("extremes.", name, '.', dtype);
      SCOPED_TRACE(id);
      const Tensor x = values.clone().requires_grad_();
      const Tensor y = f(x);
      ASSERT_EQ(y.dtype(), dtype);
      sum(y).backward();
      const auto compare = [&](const Tensor& ours, const Tensor& theirs, bool at_nan) {
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          const double at = values[i].item(), a = ours[i].item(), b = theirs[i].item();
          if (std::isnan(at) && !at_nan) continue;
          EXPECT_TRUE(all_close(leaf({a}), leaf({b}), tolerance(dtype), tolerance(dtype)))
              << "at " << at;
        }
      };
      compare(y.detach().to(f64), activations()[id + ".y"].to(f64), true);
      compare(x.grad().to(f64), activations()[id + ".dx"].to(f64), false);
    }
  }
}

TEST(ComposedActivation, RreluDrawsSlopes) {
  manual_seed(4);
  const Tensor x = full({10000}, -2.0).requires_grad_();
  const Tensor y = rrelu(x, 0.25, 0.75, true);
  EXPECT_GE(min(y).item(), -1.5);
  EXPECT_LE(max(y).item(), -0.5);
  EXPECT_NEAR(mean(y).item(), -1, 0.02);
  EXPECT_NEAR(y.std().item(), std::sqrt(1.0 / 12), 0.02);
  sum(y).backward();
  EXPECT_TRUE(all_close(x.grad() * x.detach(), y.detach(), 1e-6));
}

TEST(ComposedActivation, Errors) {
  const Tensor x = zeros({2, 3});
  EXPECT_ERROR(elu(zeros({2}, {.dtype = i64})), DTypeError, "elu: the input is i64");
  EXPECT_ERROR(celu(x, 0), Error, "celu: alpha must not be 0");
  EXPECT_ERROR(glu(x), ShapeError, "glu: dimension 1 of [2, 3] has an odd size");
  EXPECT_ERROR(glu(zeros({})), ShapeError, "glu: a tensor without dimensions");
  EXPECT_ERROR(prelu(x, zeros({2})), ShapeError,
               "prelu: weight [2] has neither one element nor one for each of the 3 channels");
  EXPECT_ERROR(rrelu(x, 1, 0), Error, "rrelu: lower 1 exceeds upper 0");
  EXPECT_ERROR(hardtanh(x, 1, 0), Error, "hardtanh: min_val 1 exceeds max_val 0");
  EXPECT_ERROR(softshrink(x, -1), Error, "softshrink: lambd -1 is negative");
}

}  // namespace
}  // namespace rondo::test
