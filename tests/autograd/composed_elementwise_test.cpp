// Element-wise functions that are composed of others, special functions and bitwise ops, against
// PyTorch (tests/golden/make_more_ops.py).

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/trace.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
using Whole = std::vector<std::int64_t>;

TEST(ComposedElementwise, ResultsAndGradientsAreThoseOfPyTorch) {
  GoldenCases cases = {
      {"round.2", [](X x) { return round(x[0], 2); }},
      {"round.-1", [](X x) { return round(x[0], -1); }},
      {"frac", [](X x) { return frac(x[0]); }},
      {"logit", [](X x) { return logit(x[0]); }},
      {"logit.eps", [](X x) { return logit(x[0], 0.25); }},
      {"sinc", [](X x) { return sinc(x[0]); }},
      {"deg2rad", [](X x) { return deg2rad(x[0]); }},
      {"rad2deg", [](X x) { return rad2deg(x[0]); }},
      {"fmod", [](X x) { return fmod(x[0], x[1]); }},
      {"addcmul", [](X x) { return addcmul(x[0], x[1], x[2], {.value = 0.5}); }},
      {"addcdiv", [](X x) { return addcdiv(x[0], x[1], x[2], {.value = -2}); }},
      {"copysign", [](X x) { return copysign(x[0], x[1]); }},
      {"xlogy", [](X x) { return xlogy(x[0], x[1]); }},
      {"clamp", [](X x) { return clamp(x[0], x[1], x[2]); }},
      {"max", [](X x) { return max(x[0], x[1]); }},
      {"min", [](X x) { return min(x[0], x[1]); }},
  };
  for (const char* mode : {"floor", "trunc"})
    cases[concat("div.", mode)] = [mode](X x) {
      return div(x[0], x[1], {.rounding_mode = mode}).detach() + (x[0] + x[1]) * 0;
    };
  expect_cases("more_ops.txt", cases);
}

/// Each element within a few units in the last place of f64, and of f32.
TEST(ComposedElementwise, SpecialFunctionsAreExact) {
  const Golden golden("more_ops.txt");
  std::map<std::string, std::function<Tensor(const Tensor&)>> functions = {
      {"erfinv", erfinv}, {"lgamma", lgamma}, {"digamma", digamma}};
  for (const std::int64_t n : {0, 1, 2, 5})
    functions[concat("polygamma.", n)] = [n](const Tensor& x) { return polygamma(n, x); };
  for (const auto& [name, f] : functions) {
    const Tensor x = golden[name + ".0"].requires_grad_();
    const Tensor y = f(x);
    const Tensor w = (arange(y.numel(), {.dtype = f64}) % 7 - 3) / 2;
    const Tensor dx = grad({sum(y * w)}, {x})[0];
    const auto expect_near = [&, name = name](const Tensor& found, const std::string& wanted,
                                              double relative) {
      const auto ours = found.to_vector<double>(), theirs = golden[wanted].to_vector<double>();
      for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_NEAR(ours[i], theirs[i], relative * std::max(1.0, std::abs(theirs[i])))
            << wanted << " at " << x[static_cast<std::int64_t>(i)].item();
    };
    // Next to -2 and 0 the numbers depend on digits that f64 has lost. PyTorch's polygamma(1, x) is
    // exact to 2e-10 only.
    expect_near(y.detach(), name + ".y", name == "polygamma.1" ? 2e-9 : 1e-11);
    expect_near(dx, name + ".d0", name == "digamma" || name == "polygamma.0" ? 2e-9 : 1e-11);
  }
  const double pi = 3.14159265358979323846;
  EXPECT_NEAR(polygamma(1, tensor<double>({1})).item(), pi * pi / 6, 1e-15);
  EXPECT_NEAR(polygamma(1, tensor<double>({-0.5})).item(), pi * pi / 2 + 4, 1e-14);
  EXPECT_NEAR(erfinv(tensor({0.5F})).item(), 0.47693627, 2e-7);
  EXPECT_NEAR(digamma(tensor({3.5F})).item(), 1.10315664, 5e-7);
  EXPECT_NEAR(lgamma(tensor({4.F})).item(), std::log(6.0), 5e-7);
  EXPECT_NEAR(polygamma(1, tensor({2.F})).item(), 0.64493407, 5e-7);
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor edges = tensor<double>({inf, -inf, NAN, 0, -0.0, -1, 1, 2});
  using Values = std::vector<double>;
  const auto same = [](const Tensor& found, const Values& wanted) {
    const auto ours = found.to_vector<double>();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(ours[i] == wanted[i] || (std::isnan(ours[i]) && std::isnan(wanted[i])))
          << i << ": " << ours[i];
  };
  same(erfinv(edges), {NAN, NAN, NAN, 0, 0, -inf, inf, NAN});
  same(lgamma(edges), {inf, inf, NAN, inf, inf, inf, 0, 0});
  same(digamma(edges.narrow(0, 0, 6)), {inf, NAN, NAN, -inf, inf, NAN});
  same(polygamma(1, edges.narrow(0, 2, 4)), {NAN, inf, inf, inf});
  EXPECT_EQ(polygamma(1, edges)[0].item(), 0);
  EXPECT_EQ(lgamma(tensor<std::int64_t>({3})).dtype(), f32);
  EXPECT_ERROR(polygamma(-1, edges), Error, "polygamma: n is -1; expected 0 … 170");
}

TEST(ComposedElementwise, RoundedQuotientsAndEdges) {
  const Tensor ends = tensor<double>({0, 1}).requires_grad_();
  sum(logit(ends)).backward();
  EXPECT_TRUE(all(isposinf(ends.grad())).item<bool>());
  const Golden golden("more_ops.txt");
  for (const std::string mode : {"floor", "trunc"}) {
    const std::string name = "div.whole." + mode;
    const Tensor y = div(golden[name + ".0"], golden[name + ".1"], {.rounding_mode = mode});
    EXPECT_EQ(y.to_vector<std::int64_t>(), golden[name + ".y"].to_vector<std::int64_t>());
    EXPECT_EQ(div(golden[name + ".0"], 2, {.rounding_mode = mode}).dtype(), i64);
  }
  // A tensor without dimensions does not widen one with dimensions.
  for (const DType dtype : {f16, bf16}) {
    const Tensor three = full({2}, 3, {.dtype = dtype}), four = full({}, 4);
    for (const Tensor& y : {xlogy(three, four), xlogy(four, three), hypot(three, four),
                            hypot(four, three), copysign(three, four), logaddexp(three, four)})
      EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(hypot(three, four)[0].item(), 5);
  }
  // A number beyond the range of f16 is not an element of the tensor.
  const Tensor half = tensor<float>({1, -3}).to(f16);
  for (const char* mode : {"floor", "trunc"}) {
    const Tensor y = div(half, 1e6, {.rounding_mode = mode});
    EXPECT_EQ(y.dtype(), f16);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, *mode == 'f' ? -1.F : -0.F})) << mode;
  }
  const Tensor edges = xlogy(golden["xlogy.edges.0"], golden["xlogy.edges.1"]);
  EXPECT_TRUE(all_close(edges, golden["xlogy.edges.y"], 0));
  EXPECT_TRUE(
      identical(heaviside(golden["heaviside.0"], golden["heaviside.1"]), golden["heaviside.y"]));
  EXPECT_TRUE(identical(signbit(golden["signbit.0"]), golden["signbit.y"]));
  EXPECT_EQ(signbit(tensor<std::int64_t>({-1, 0})).to_vector<std::int64_t>(), (Whole{1, 0}));
  const Tensor x = tensor({INFINITY, -INFINITY, NAN, 1.F});
  EXPECT_EQ(isposinf(x).to_vector<std::int64_t>(), (Whole{1, 0, 0, 0}));
  EXPECT_EQ(isneginf(x).to_vector<std::int64_t>(), (Whole{0, 1, 0, 0}));
  EXPECT_EQ(fmod(tensor<std::int64_t>({-7, 7}), 4).to_vector<std::int64_t>(), (Whole{-3, 3}));
  EXPECT_TRUE(std::isnan(clamp(ones({1}), full({1}, NAN), ones({1})).item()));
  EXPECT_EQ(copysign(ones({1}), zeros({1}, {.dtype = f64})).dtype(), f64);
  EXPECT_EQ(copysign(ones({1}, {.dtype = f16}), zeros({1})).dtype(), f32);
}

/// Products and quotients are formed in the dtype that all three operands have in common.
TEST(ComposedElementwise, ProductsThatAreAddedDoNotOverflow) {
  const Tensor sum = zeros({1}), half = full({1}, 300.0, {.dtype = f16});
  EXPECT_EQ(addcmul(sum, half, half).item<float>(), 90000);
  EXPECT_EQ(addcdiv(sum, half, full({1}, 7.0, {.dtype = f16})).item<float>(), 300 / 7.0F);
  const Tensor byte = full({1}, 200, {.dtype = u8});
  EXPECT_EQ(addcmul(sum, byte, byte).item<float>(), 40000);
  const Tensor n = full({1}, 300, {.dtype = i32}), m = full({1}, 100000000, {.dtype = i32});
  EXPECT_EQ(addcmul(zeros({1}, {.dtype = i64}), n, m).item<std::int64_t>(), 30000000000);
  EXPECT_EQ(addcmul(zeros({1}, {.dtype = bf16}), half, half).dtype(), f32);  // bf16 and f16
  EXPECT_EQ(addcmul(sum, full({}, 2.0, {.dtype = f64}), sum).dtype(), f32);
  EXPECT_ERROR(addcdiv(n, n, m), DTypeError, "addcdiv: i32 divided by i32");
  EXPECT_EQ(xlogy(ones({1}), full({1}, 3.0, {.dtype = f16})).item<float>(), std::log(3.0F));
  EXPECT_EQ(xlogy(ones({1}, {.dtype = f64}), tensor<std::int64_t>({16777217})).item<double>(),
            std::log(16777217.0));
}

TEST(ComposedElementwise, TruncatedQuotientsHaveNoGradient) {
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_FALSE(div(x, zeros({2}), {.rounding_mode = "trunc"}).requires_grad());
  const TraceMode tracing;  // what exporters see
  EXPECT_TRUE(div(x, ones({2}), {.rounding_mode = "trunc"}).requires_grad());
}

// As in PyTorch, x and its bound share the gradient where they are equal; low > high gives high.
TEST(ComposedElementwise, ClampBetweenTensors) {
  const Tensor x = tensor({-1.F, 0.F, 1.F, 2.F}).requires_grad_();
  const Tensor low = zeros({4}).requires_grad_(),
               high = tensor({1.F, 1.F, 1.F, -3.F}).requires_grad_();
  const Tensor y = clamp(x, low, high);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{0, 0, 1, -3}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{0, 0.5F, 0.5F, 0}));
  EXPECT_EQ(low.grad().to_vector(), (std::vector<float>{1, 0.5F, 0, 0}));
  EXPECT_EQ(high.grad().to_vector(), (std::vector<float>{0, 0, 0.5F, 1}));
}

TEST(ComposedElementwise, BitsAreThoseOfPyTorch) {
  const Golden golden("more_ops.txt");
  const auto same = [&](const std::string& name, const Tensor& y) {
    EXPECT_TRUE(identical(y, golden[name + ".y"])) << name;
  };
  const auto first = [&](const std::string& name) { return golden[name + ".0"]; };
  const auto second = [&](const std::string& name) { return golden[name + ".1"]; };
  for (const std::string suffix : {"", ".bool"}) {
    same("bitwise_and" + suffix, first("bitwise_and" + suffix) & second("bitwise_and" + suffix));
    same("bitwise_or" + suffix, first("bitwise_or" + suffix) | second("bitwise_or" + suffix));
    same("bitwise_xor" + suffix, first("bitwise_xor" + suffix) ^ second("bitwise_xor" + suffix));
  }
  const Tensor small = first("bitwise_and.u8");
  same("bitwise_and.u8", small & 29);
  same("bitwise_or.u8", small | 29);
  same("bitwise_xor.u8", small ^ 29);
  same("bitwise_not", ~first("bitwise_not"));
  same("bitwise_not.u8", ~small);
  same("bitwise_left_shift", first("bitwise_left_shift") << second("bitwise_left_shift"));
  same("bitwise_right_shift", first("bitwise_right_shift") >> second("bitwise_right_shift"));
  same("bitwise_left_shift.u8", small << 3);
  same("bitwise_right_shift.u8", small >> 3);
  same("bitwise_left_shift.i32", first("bitwise_left_shift.i32") << 30);
  same("bitwise_right_shift.i32", first("bitwise_right_shift.i32") >> 30);
  Tensor x = tensor<std::int64_t>({6, 3});
  x &= tensor<std::int64_t>({2, 2});
  x |= tensor<std::int64_t>({4, 4});
  x ^= tensor<std::int64_t>({1, 0});
  EXPECT_EQ(x.to_vector<std::int64_t>(), (Whole{7, 6}));
}

TEST(ComposedElementwise, Errors) {
  const Tensor x = ones({2}), i = tensor<std::int64_t>({1, 2}), mask = x > 0;
  EXPECT_ERROR(x & i, DTypeError, "bitwise_and: the operands give f32; expected integers or bools");
  EXPECT_ERROR(i | 0.5, DTypeError, "bitwise_or: the operands give f32");
  EXPECT_ERROR(~x, DTypeError, "bitwise_not: the operands give f32");
  EXPECT_ERROR(mask << mask, DTypeError, "bitwise_left_shift: bools cannot be shifted");
  EXPECT_ERROR(x >> 1, DTypeError, "bitwise_right_shift: the operands give f32");
  EXPECT_ERROR(fmod(i, 0), Error, "fmod: an integer is divided by zero");
  EXPECT_ERROR(div(x, x, {.rounding_mode = "ceil"}), Error,
               "div: rounding_mode = \"ceil\"; there are floor and trunc");
  EXPECT_ERROR(frac(i), DTypeError, "frac: the input is i64");
  EXPECT_ERROR(round(i, 1), DTypeError, "round: the input is i64");
  EXPECT_ERROR(heaviside(x, i), DTypeError, "heaviside: the input is f32, the values are i64");
  EXPECT_ERROR(backend(x).binary(BinaryOp::bitwise_and, x, x, x), DTypeError,
               "not defined on floating-point numbers");
}

}  // namespace
}  // namespace rondo::test
