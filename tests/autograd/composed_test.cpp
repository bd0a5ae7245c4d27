// Ops composed of others, against PyTorch: results and gradients in f64
// (tests/golden/make_composed.py).

#include "autograd/ops/composed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/functional.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
constexpr double inf = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();

GoldenCases all_cases() {
  GoldenCases cases = {
      {"outer", [](X x) { return outer(x[0], x[1]); }},
      {"dot", [](X x) { return dot(x[0], x[1]); }},
      {"addmm", [](X x) { return addmm(x[0], x[1], x[2], {.beta = 0.5, .alpha = 2}); }},
      {"baddbmm", [](X x) { return baddbmm(x[0], x[1], x[2], {.beta = -1, .alpha = 0.5}); }},
      {"tensordot.2", [](X x) { return tensordot(x[0], x[1]); }},
      {"tensordot.0", [](X x) { return tensordot(x[0], x[1], 0); }},
      {"tensordot.lists",
       [](X x) {
         return tensordot(x[0], x[1], {Dims{0, 2}, Dims{2, 1}});
       }},
      {"movedim", [](X x) { return movedim(x[0], 0, -1); }},
      {"unflatten",
       [](X x) {
         return unflatten(x[0], 1, {2, -1});
       }},
      {"roll",
       [](X x) {
         return roll(x[0], {1, -2}, {0, 1});
       }},
      {"logaddexp", [](X x) { return logaddexp(x[0], x[1]); }},
      {"lerp.0.25", [](X x) { return lerp(x[0], x[1], 0.25); }},
      {"lerp.0.75", [](X x) { return lerp(x[0], x[1], 0.75); }},
      {"lerp.tensor", [](X x) { return lerp(x[0], x[1], x[2]); }},
      {"hypot", [](X x) { return hypot(x[0], x[1]); }},
      {"normalize", [](X x) { return normalize(x[0]); }},
      {"normalize.1", [](X x) { return normalize(x[0], {.p = 1, .dim = 0}); }},
      {"cosine_similarity", [](X x) { return cosine_similarity(x[0], x[1]); }},
  };
  const auto joined = [](const char* indexing) {
    return [=](X x) { return stack(meshgrid(x, indexing)); };
  };
  cases.merge(GoldenCases{
      {"diagonal", [](X x) { return diagonal(x[0], 1, 0, 2); }},
      {"diagonal.below", [](X x) { return diagonal(x[0], -1, -1, 0); }},
      {"diagonal.none", [](X x) { return diagonal(x[0], 5); }},
      {"diag.vector", [](X x) { return diag(x[0], -1); }},
      {"diag.matrix", [](X x) { return diag(x[0], 1); }},
      {"diag_embed", [](X x) { return diag_embed(x[0], 1); }},
      {"trace", [](X x) { return trace(x[0]); }},
      {"meshgrid", joined("ij")},
      {"meshgrid.xy", joined("xy")},
      {"tile", [](X x) { return tile(x[0], {2}); }},
      {"repeat_interleave", [](X x) { return repeat_interleave(x[0], 2, 1); }},
      {"repeat_interleave.flat", [](X x) { return repeat_interleave(x[0], 3); }},
      {"repeat_interleave.each",
       [](X x) {
         return repeat_interleave(x[0], tensor<std::int64_t>({2, 0, 3}), 0);
       }},
      {"cdist", [](X x) { return cdist(x[0], x[1]); }},
      {"cdist.1", [](X x) { return cdist(x[0], x[1], 1); }},
      {"amax.two",
       [](X x) {
         return amax(x[0], {0, 2});
       }},
  });
  using Reduction = Tensor (*)(const Tensor&, const Dims&, Flag);
  for (const auto& [name, f] :
       {std::pair<const char*, Reduction>{"amax", amax}, {"amin", amin}, {"prod", prod}}) {
    cases[concat(name, ".all")] = [f = f](X x) { return f(x[0], {}, false); };
    cases[concat(name, ".1")] = [f = f](X x) { return f(x[0], {1}, false); };
    cases[concat(name, ".kept")] = [f = f](X x) { return f(x[0], {-2}, true); };
    cases[concat(name, ".ties")] = [f = f](X x) { return f(x[0], {0}, false); };
  }
  for (const std::int64_t d : {-2, -1, 0, 1, 3}) {
    cases[concat("tril.", d)] = [d](X x) { return tril(x[0], d); };
    cases[concat("triu.", d)] = [d](X x) { return triu(x[0], d); };
  }
  for (const auto& [name, equation] : golden_texts("einsum_equations.txt"))
    cases[name] = [equation = equation](X x) { return einsum(equation, x); };
  return cases;
}

TEST(Composed, ResultsAndGradientsAreThoseOfPyTorch) {
  const auto cases = all_cases();
  EXPECT_GE(cases.size(), 50U);
  expect_cases("composed.txt", cases);
}

TEST(Composed, ComparisonsAreThoseOfPyTorch) {
  const Golden golden("composed.txt");
  const Tensor a = golden["isclose.0"], b = golden["isclose.1"];
  const auto same = [&](const Tensor& found, const char* name) {
    EXPECT_EQ(found.to(f64).to_vector<double>(), golden[name].to_vector<double>()) << name;
  };
  same(isclose(a, b), "isclose.y");
  same(isclose(a, b, {.equal_nan = true}), "isclose.nan");
  same(isclose(a, b, {.rtol = 0.5, .atol = 0.6}), "isclose.loose");
  EXPECT_TRUE(allclose(tensor({1.F, 2.F}), tensor({1.F, 2.00001F})));
  EXPECT_FALSE(allclose(tensor({1.F, 2.F}), tensor({1.F, 2.001F})));
  // Beyond 2^53, where f64 has gaps.
  const std::int64_t large = std::int64_t{1} << 53;
  EXPECT_FALSE(allclose(tensor({large + 1}), tensor({large}), {.rtol = 0, .atol = 0}));
  EXPECT_TRUE(allclose(tensor({large + 1}), tensor({large}), {.rtol = 0, .atol = 1}));
  EXPECT_FALSE(allclose(tensor({INT64_MIN}), tensor({std::int64_t{0}})));
  EXPECT_FALSE(allclose(tensor({INT64_MAX}), tensor({INT64_MIN}), {.rtol = 0, .atol = 1}));
  EXPECT_FALSE(allclose(tensor({std::int64_t{257}}), full({1}, 256, {.dtype = bf16}),
                        {.rtol = 0, .atol = 0}));
  EXPECT_TRUE(equal(tensor({1.F, 2.F}), tensor({1.F, 2.F})));
  EXPECT_FALSE(equal(tensor({1.F, 2.F}), tensor({1.F, 3.F})));
  EXPECT_FALSE(equal(tensor({1.F, 2.F}), tensor({1.F})));
  EXPECT_FALSE(equal(full({1}, nan), full({1}, nan)));
  EXPECT_TRUE(equal(zeros({0, 3}), zeros({0, 3})));
}

TEST(Composed, ExtremeValues) {
  const Golden golden("composed.txt");
  const Tensor numbers = golden["isclose.1"].narrow(0, 0, 9);
  EXPECT_EQ(nan_to_num(numbers.to(f32)).to_vector<float>(),
            golden["nan_to_num.f32"].to_vector<float>());
  EXPECT_EQ(nan_to_num(numbers, {.nan = 3, .posinf = 4, .neginf = -5}).to_vector<double>(),
            golden["nan_to_num.told"].to_vector<double>());
  EXPECT_EQ(nan_to_num(full({}, inf, {.dtype = bf16})).item<double>(), 0x1.fep127);
  EXPECT_EQ(nan_to_num(full({}, -inf, {.dtype = f16})).item<double>(), -65504);
  EXPECT_FLOAT_EQ(hypot(full({}, 3e30), full({}, 4e30)).item<float>(), 5e30F);
  EXPECT_FLOAT_EQ(hypot(full({}, 3e-30), full({}, 4e-30)).item<float>(), 5e-30F);
  const TensorOptions wide{.dtype = f64};
  EXPECT_DOUBLE_EQ(hypot(full({}, 3e200, wide), full({}, 4e200, wide)).item<double>(), 5e200);
  EXPECT_EQ(hypot(zeros({}), zeros({})).item(), 0);
  EXPECT_EQ(hypot(full({}, -inf), ones({})).item(), inf);
  EXPECT_EQ(hypot(full({}, NAN), full({}, inf)).item(), inf);
  const Tensor origin = zeros({1}).requires_grad_();
  hypot(origin, zeros({1})).backward();
  EXPECT_EQ(origin.grad().item(), 0);
  EXPECT_EQ(lerp(full({}, 1.), full({}, 3.), 1.5).item(), 4);
  EXPECT_EQ(lerp(full({}, 1.), full({}, 3.), -0.5).item(), 0);
  // The gradient of replaced elements is 0, of equal infinities one half each.
  const Tensor x = tensor(std::vector<double>{1, nan, inf}).requires_grad_();
  sum(nan_to_num(x)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(logaddexp(full({}, -inf), full({}, -inf)).item(), -inf);
  const Tensor a = tensor<double>({inf, -inf, 1, inf}).requires_grad_(),
               b = tensor<double>({1, inf, 1, -inf}).requires_grad_();
  sum(logaddexp(a, b)).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{1, 0, 0.5, 1}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{0, 1, 0.5, 0}));
  const Tensor none = zeros({0}).requires_grad_();
  prod(none).backward();
  EXPECT_EQ(none.grad().numel(), 0);
  EXPECT_EQ(logaddexp(full({}, 1e4), full({}, 0.)).item(), 1e4);
  EXPECT_EQ(lerp(full({}, 1.), full({}, 3.), 1).item(), 3);
  // beta 0 ignores the input, a NaN too.
  EXPECT_EQ(addmm(full({1}, nan), ones({1, 2}), ones({2, 1}), {.beta = 0}).item(), 2);
  EXPECT_EQ(argsort(tensor({3.F, 1.F, 2.F, 1.F, 3.F})).to_vector<std::int64_t>(),
            golden["argsort"].to_vector<std::int64_t>());
  const auto [variance, average] = var_mean(tensor({1.F, 3.F}));
  EXPECT_EQ(variance.item(), 2);
  EXPECT_EQ(average.item(), 2);
}

TEST(Composed, ReductionsOverDimensions) {
  const Tensor x = tensor<std::int64_t>({1, 0, 2, 3, 4, 5}, {2, 3});
  using Bytes = std::vector<std::int64_t>;
  EXPECT_EQ(all(x, {1}).to_vector<std::int64_t>(), (Bytes{0, 1}));
  EXPECT_EQ(any(x, {0}, true).shape(), (Dims{1, 3}));
  EXPECT_EQ(prod(x, {1}).to_vector<std::int64_t>(), (Bytes{0, 60}));
  EXPECT_EQ(amax(x, {-1}).to_vector<std::int64_t>(), (Bytes{2, 5}));
  EXPECT_EQ(prod(ones({2, 0, 3}), {1}).to_vector(), std::vector<float>(6, 1));
  EXPECT_EQ(amax(ones({0, 3}), {1}).shape(), (Dims{0}));
  EXPECT_ERROR(amax(ones({0, 3}), {0}), ShapeError, "amax: the tensor [0, 3] has no elements");
  EXPECT_ERROR(prod(x, {0, -2}), ShapeError, "prod: dimension 0 appears twice");
  EXPECT_EQ(amax(full({2}, 3, {.dtype = bf16}), {0}).dtype(), bf16);
}

TEST(Composed, ADiagonalIsAView) {
  const Tensor x = zeros({2, 3});
  diagonal(x, 1).fill_(1);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{0, 1, 0, 0, 0, 1}));
  const Tensor w = ones({2}).requires_grad_();
  diagonal(x).copy_(w * 2);
  sum(x * x).backward();
  EXPECT_EQ(w.grad().to_vector(), (std::vector<float>{8, 8}));
}

TEST(Composed, RepeatsMayBeOneNumberOrI32) {
  const Tensor x = tensor({1.F, 2.F});
  EXPECT_EQ(repeat_interleave(x, tensor<std::int64_t>({2})).to_vector(),
            (std::vector<float>{1, 1, 2, 2}));
  EXPECT_EQ(repeat_interleave(x, tensor<std::int32_t>({1, 2})).to_vector(),
            (std::vector<float>{1, 2, 2}));
  EXPECT_EQ(dot(tensor<std::int32_t>({1, 2}), tensor<std::int32_t>({3, 4})).dtype(), i32);
}

TEST(Composed, IntegersStayIntegers) {
  const Tensor a = arange(6, {.dtype = i64}).reshape({2, 3}),
               b = arange(12, {.dtype = i64}).reshape({3, 4});
  EXPECT_EQ(tril(a).dtype(), i64);
  EXPECT_EQ(tril(a).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(roll(a, {1}, {1}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(outer(arange(2), arange(3)).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 0, 0, 0, 1, 2}));
}

TEST(Composed, AddmmUnderAutocastAndWhatItRefuses) {
  const Tensor x = ones({2, 2}), a = ones({2, 3}), b = ones({3, 2});
  {
    const Autocast scope(Device::cpu(), bf16);
    EXPECT_EQ(addmm(x, a, b).dtype(), bf16);
    EXPECT_EQ(baddbmm(x.unsqueeze(0), a.unsqueeze(0), b.unsqueeze(0)).dtype(), bf16);
  }
  EXPECT_ERROR(addmm(ones({2, 2, 2}), a, b), ShapeError, "addmm: input [2, 2, 2] does not fit");
  EXPECT_ERROR(addmm(ones({5}), a, b, {.beta = 0}), Error, "");
  EXPECT_ERROR(addmm(x.to(i64), a.to(i64), b.to(i64), {.alpha = 0.5}), DTypeError, "addmm: alpha");
  EXPECT_ERROR(addmm(x.to(i64), a.to(i64), b.to(i64), {.beta = 0.5}), DTypeError, "addmm: beta");
  const Tensor large = full({1, 1}, 16777217, {.dtype = i64});
  EXPECT_EQ(addmm(zeros_like(large), large, ones_like(large), {.alpha = 3}).item<std::int64_t>(),
            50331651);
}

TEST(Composed, Errors) {
  const Tensor m = ones({2, 3});
  EXPECT_ERROR(outer(m, m), ShapeError, "outer: expected two vectors, got [2, 3] and [2, 3]");
  EXPECT_ERROR(dot(ones({2}), ones({3})), ShapeError, "dot: expected vectors of one length");
  EXPECT_ERROR(addmm(m, ones({2}), m), ShapeError, "addmm: expected matrices");
  EXPECT_ERROR(einsum("ij", {m, m}), Error, "needs 1 operand(s), but got 2");
  EXPECT_ERROR(einsum("ij,jk->ik", {m, m}), ShapeError, "has the size 2, but the same label has 3");
  EXPECT_ERROR(einsum("ijk->i", {m}), ShapeError, "term \"ijk\" does not fit an operand of shape");
  EXPECT_ERROR(einsum("ij->k", {m}), Error, "has 'k', which no operand has");
  EXPECT_ERROR(einsum("ij->ii", {m}), Error, "has 'i' twice");
  EXPECT_ERROR(einsum("i1->i", {m}), Error, "has '1'; expected letters");
  EXPECT_ERROR(einsum("ii->i", {m}), ShapeError, "has the size 3, but the same label has 2");
  EXPECT_ERROR(einsum("->", {}), Error, "einsum: no operands");
  EXPECT_ERROR(tensordot(m, ones({3, 2})), ShapeError, "tensordot: dimension 0 of [2, 3]");
  EXPECT_ERROR(tensordot(m, m, 3), ShapeError, "tensordot: 3 dimensions, but the shapes are");
  EXPECT_ERROR(tensordot(m, m, -1), ShapeError, "tensordot: -1 dimensions; expected 0 or more");
  EXPECT_ERROR(tril(ones({2})), ShapeError, "tril: expected at least 2 dimensions");
  EXPECT_ERROR(unflatten(m, 1, {2, 2}), ShapeError, "cannot be split into [2, 2]");
  EXPECT_ERROR(unflatten(m, 1, {-1, -1}), ShapeError, "cannot be split into");
  EXPECT_ERROR(roll(m, {1, 2}, {0}), ShapeError, "roll: 2 shifts for 1 dimensions");
  EXPECT_ERROR(roll(m, {1, 2}), ShapeError,
               "roll: 2 shifts for 0 dimensions; give one dimension for each shift");
  EXPECT_ERROR(movedim(m, 2, 0), ShapeError, "movedim");
  EXPECT_ERROR(diagonal(m, 0, 1, -1), ShapeError, "diagonal: the dimensions 1 and -1 are the same");
  EXPECT_ERROR(diagonal(ones({2})), ShapeError, "diagonal: expected at least 2 dimensions");
  EXPECT_ERROR(diag(ones({2, 2, 2})), ShapeError, "diag: expected a vector or a matrix");
  EXPECT_ERROR(meshgrid({m}), ShapeError, "meshgrid: expected vectors");
  EXPECT_ERROR(meshgrid({ones({2})}, "yx"), Error, "expected ij or xy");
  EXPECT_ERROR(repeat_interleave(m, -1), Error, "-1 repeats");
  EXPECT_ERROR(repeat_interleave(m, tensor<std::int64_t>({1, 1, 1}), 0), ShapeError,
               "repeats of shape [3] do not fit dimension 0 of [2, 3]");
  EXPECT_ERROR(repeat_interleave(m, tensor<std::int64_t>({1, -1}), 0), Error, "is negative");
  EXPECT_ERROR(cdist(m, ones({2, 2})), ShapeError, "cdist: expected points");
  EXPECT_ERROR(cdist(m, m, 0), Error, "cdist: p is 0; expected a positive number");
  EXPECT_ERROR(repeat_interleave(m, std::int64_t{1} << 62), ShapeError, "are too many");
  EXPECT_ERROR(isclose(m, m, {.rtol = -1}), Error, "must not be negative");
}

TEST(Lerp, OfIntegersIsAFloat) {
  const Tensor a = tensor<std::int64_t>({0, 4}), b = tensor<std::int64_t>({4, 8});
  EXPECT_TRUE(all_close(lerp(a, b, 0.25), tensor<float>({1, 5}), 0));
  EXPECT_TRUE(all_close(lerp(a, b, 0.75), tensor<float>({3, 7}), 0));
}

/// Without a gradient a kernel multiplies, with one a tree.
TEST(Prod, IsTheSameWithAndWithoutAGradient) {
  const Tensor x = randn({3, 37, 5}) * 0.1 + 1;
  for (const Dims& dims : {Dims{1}, Dims{0, 2}, Dims{2}}) {
    const Tensor want = prod(x.to(f64), dims).to(f32);
    EXPECT_TRUE(all_close(prod(x, dims), want, 40 * 0x1p-24, 40 * 0x1p-24));
    EXPECT_TRUE(
        all_close(prod(x.detach().requires_grad_(), dims), want, 40 * 0x1p-24, 40 * 0x1p-24));
  }
}

/// Many points take the product of both. Coincident ones have a gradient of 0.
TEST(Cdist, OfManyPointsIsThatOfFew) {
  for (const auto& [a_shape, b_shape] : std::vector<std::pair<Dims, Dims>>{
           {{30, 5}, {7, 5}}, {{2, 3, 4}, {2, 40, 4}}, {{2, 1, 26, 3}, {3, 26, 3}}}) {
    const Tensor a = randn(a_shape, {.dtype = f64}).requires_grad_(),
                 b = randn(b_shape, {.dtype = f64}).requires_grad_();
    const Tensor y = cdist(a, b), want = vector_norm(unsqueeze(a, -2) - unsqueeze(b, -3), 2, {-1});
    // The squares, at most about 100, are rounded; a distance of 0.01 has 100 times their error.
    EXPECT_TRUE(all_close(y, want, 1e-11));
    const Tensor dy = randn(y.shape(), {.dtype = f64});
    const GradOptions options{.grad_outputs = {dy}, .create_graph = true};
    const Tensors got = grad({y}, {a, b}, options), wanted = grad({want}, {a, b}, options);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(all_close(got[i], wanted[i], 1e-9));
      EXPECT_TRUE(all_close(grad({square(got[i]).sum()}, {a}, {.retain_graph = true})[0],
                            grad({square(wanted[i]).sum()}, {a}, {.retain_graph = true})[0], 1e-5));
    }
  }
  const Tensor same = ones({30, 2}).requires_grad_();
  cdist(same, same.detach()).sum().backward();
  EXPECT_TRUE(all_close(same.grad(), zeros({30, 2}), 0));
  const Autocast autocast(Device::cpu(), bf16);
  EXPECT_EQ(cdist(ones({30, 2}), ones({30, 2})).dtype(), f32);
}

TEST(Clamp, WithOneBound) {
  const Tensor x = tensor<float>({-1, 0.5F, 2});
  EXPECT_EQ(clamp(x, 0).to_vector<float>(), (std::vector<float>{0, 0.5F, 2}));
  EXPECT_EQ(x.clamp(1.0).to_vector<float>(), (std::vector<float>{1, 1, 2}));
}

TEST(Jacobian, OfAProductAndOfWhatDoesNotDepend) {
  const Tensor a = tensor<double>({{1, 2, 3}, {4, 5, 6}}), x = tensor<double>({1, -1, 2});
  const auto product = [&](const Tensor& v) { return matmul(a, v); };
  EXPECT_TRUE(test::identical(jacobian(product, x), a));
  const NoGradGuard no_grad;
  EXPECT_TRUE(test::identical(jacobian([&](const Tensor&) { return a; }, x),
                              zeros({2, 3, 3}, {.dtype = f64})));
  const auto cube = [](const Tensor& v) { return (v * v * v).sum(); };
  EXPECT_TRUE(test::identical(hessian(cube, x), diag(x * 6.0)));
  EXPECT_TRUE(test::identical(hessian([](const Tensor& v) { return v.sum(); }, x),
                              zeros({3, 3}, {.dtype = f64})));
  EXPECT_ERROR(hessian(product, x), ShapeError, "hessian: f(x) has the shape [2]");
}

TEST(Jacobian, CanBeDifferentiated) {
  const Tensor x = tensor<double>({1, -1, 2}).requires_grad_();
  const Tensor j = jacobian([](const Tensor& v) { return v * v * v; }, x, true);  // diag(3 x²)
  const Tensor dx = grad({j.sum()}, {x})[0];
  EXPECT_TRUE(test::identical(dx, x.detach() * 6.0));
}

}  // namespace
}  // namespace rondo::test
