// Indexing as in Python, and writing at index tensors, against PyTorch in f64
// (tests/golden/make_subscript.py).

#include "autograd/ops/subscript.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
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
using Where = std::vector<TensorIndex>;
using Bytes = std::vector<std::int64_t>;
constexpr bool yes = true, no = false;

Tensor positions(std::vector<std::int64_t> values) { return tensor(values); }

std::map<std::string, Where> indices() {
  const Tensor a = positions({2, 0, -1}), b = positions({1, -2}).reshape({2, 1});
  const Tensor mask3 = tensor<bool>({yes, no, yes});
  const Tensor mask34 = arange(12, {.dtype = i64}).reshape({3, 4}) % 3 == 1;
  const Tensor mask = arange(60, {.dtype = i64}).reshape({3, 4, 5}) % 7 == 2;
  return {
      {"number", {1}},
      {"negative", {-1}},
      {"numbers", {1, -2}},
      {"all_numbers", {1, 2, 3}},
      {"slice", {Slice(1, 3)}},
      {"step", {Slice(None, None, 2)}},
      {"slices", {Slice(0, 2), Slice(-3), Slice(4, 1)}},
      {"past_the_end", {Slice(), Slice(2, 99, 3)}},
      {"none", {None, 1, None}},
      {"ellipsis", {Ellipsis, 0}},
      {"ellipsis_none", {Ellipsis, None, Slice(0, 2)}},
      {"ellipsis_of_nothing", {0, Ellipsis, 1, 2}},
      {"empty", {}},
      {"tensor", {a}},
      {"tensor_middle", {Slice(), a}},
      {"tensor_last", {Ellipsis, a}},
      {"tensor_2d", {b}},
      {"pair", {a, b}},
      {"pair_apart", {a, Slice(), b}},
      {"pair_inside", {Slice(), a, b}},
      {"three", {a, b, a}},
      {"tensor_and_number", {0, Slice(), a}},
      {"number_between", {a, 1, b}},
      {"tensor_and_none", {a, None, a}},
      {"tensor_slice", {Slice(1), a, Slice(None, None, 2)}},
      {"scalar_tensor", {scalar(1, {.dtype = i64})}},
      {"number_tensor_first", {scalar(-1, {.dtype = i64}), Slice(), a}},
      {"mask", {mask}},
      {"mask_first", {mask3}},
      {"mask_two", {mask34}},
      {"mask_and_slice", {mask3, Slice(1, 3)}},
      {"mask_and_tensor", {mask3, positions({1, 0})}},
      {"mask_none", {zeros({3}, {.dtype = boolean})}},
      {"empty_tensor", {zeros({0}, {.dtype = i64})}},
      {"ellipsis_mask", {Ellipsis, tensor<bool>({yes, no, no, yes, yes})}},
  };
}

/// f of the arguments, by the name in the golden file.
GoldenCases scatters() {
  const Tensor once = positions({0, 2, 1, 0, 2, 1, 0, 1}).reshape({2, 4});
  const Tensor many = positions({0, 0, 1, 0, 1, 1, 1, 1, 0, 2, 2, 0}).reshape({3, 4});
  const Tensor which = positions({2, 0});
  GoldenCases cases = {
      {"scatter", [=](X x) { return scatter(x[0], 0, once, x[1]); }},
      {"scatter.larger", [=](X x) { return scatter(x[0], 0, once.narrow(1, 0, 3), x[1]); }},
      {"scatter.value", [=](X x) { return scatter(x[0], 0, once, 3.5); }},
      {"index_add",
       [](X x) {
         return index_add(x[0], 1, positions({2, 0, 2}), x[1], {.alpha = 0.5});
       }},
      {"index_copy", [=](X x) { return index_copy(x[0], 0, which, x[1]); }},
      {"index_fill", [=](X x) { return index_fill(x[0], 1, which, 2.5); }},
      {"masked_select",
       [](X x) {
         return masked_select(x[0], arange(4, {.dtype = i64}).reshape({1, 4}) % 3 == 1);
       }},
      {"take_along_dim",
       [](X x) {
         return take_along_dim(x[0], positions({0, 2, 1}).reshape({1, 3}), 1);
       }},
  };
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
    for (const bool self : {false, true})
      for (const char* prefix : {"reduce.", "ties."})
        cases[concat(prefix, reduce, '.', self ? 1 : 0)] = [=](X x) {
          return scatter_reduce(x[0], 1, many, x[1], reduce, {.include_self = self});
        };
  return cases;
}

TEST(Subscript, ReadsAndWritesAreThoseOfPyTorch) {
  const Golden golden("subscript.txt");
  GoldenCases cases;
  for (const auto& [name, where] : indices()) {
    cases["get." + name] = [where = where](X x) { return x[0].index(where); };
    for (const char* kind : {"put.", "put_one."})
      if (golden.has(kind + name + ".y"))
        cases[kind + name] = [where = where](X x) { return index_put(x[0], where, x[1]); };
    if (golden.has("add." + name + ".y"))
      cases["add." + name] = [where = where](X x) { return index_put(x[0], where, x[1], true); };
  }
  EXPECT_GE(cases.size(), 110U);
  expect_cases("subscript.txt", cases);
}

TEST(Subscript, ScattersAreThoseOfPyTorch) {
  GoldenCases cases = scatters();
  // Without x's element PyTorch's gradient still counts it, if it is equal, and so loses its share.
  for (const char* name : {"ties.amax.0", "ties.amin.0"}) cases.erase(name);
  expect_cases("subscript.txt", cases);
}

TEST(Subscript, IndicesMayBe32Bits) {
  const Tensor x = arange(6).to(f32).reshape({3, 2}), at = tensor<std::int32_t>({2, 0});
  EXPECT_TRUE(identical(x[at], x[at.to(i64)]));
  EXPECT_EQ(x[at[0]].to_vector(), (std::vector<float>{4, 5}));
  const Tensor cells = tensor<std::int32_t>({1, 0, 1}, {3, 1}), wide = cells.to(i64);
  EXPECT_TRUE(identical(gather(x, 1, cells), gather(x, 1, wide)));
  EXPECT_TRUE(identical(index_select(x, 0, at), index_select(x, 0, at.to(i64))));
  EXPECT_TRUE(identical(embedding(x, at), embedding(x, at.to(i64))));
  EXPECT_TRUE(identical(one_hot(at, 3), one_hot(at.to(i64), 3)));
  EXPECT_TRUE(identical(scatter(x, 1, cells, 7), scatter(x, 1, wide, 7)));
  EXPECT_TRUE(
      identical(scatter_reduce(x, 1, cells, x, "amax"), scatter_reduce(x, 1, wide, x, "amax")));
  EXPECT_TRUE(identical(index_fill(x, 0, at, 7), index_fill(x, 0, at.to(i64), 7)));
}

TEST(Subscript, IndexAddOfIntegers) {
  const Tensor x = zeros({3}, {.dtype = i64});
  EXPECT_EQ(
      index_add(x, 0, positions({0, 0}), positions({1, 2}), {.alpha = 2}).to_vector<std::int64_t>(),
      (Bytes{6, 0, 0}));
  EXPECT_ERROR(index_add(x, 0, positions({0}), positions({1}), {.alpha = 0.5}), DTypeError,
               "index_add");
}

TEST(Subscript, SharesOfEqualExtremesAddUpToOne) {
  const Tensor x = full({2}, 3, {.dtype = f64}).requires_grad_();
  const Tensor src = tensor<double>({3, 1, 3, 3}).requires_grad_();
  const Tensor index = positions({0, 0, 0, 1});
  for (const bool self : {true, false}) {
    const Tensor y = scatter_reduce(x, 0, index, src, "amax", {.include_self = self});
    const Tensors d = grad({sum(y)}, {x, src});
    const double share = self ? 1.0 / 3 : 0.5, alone = self ? 0.5 : 1;
    EXPECT_TRUE(all_close(d[1], tensor<double>({share, 0, share, alone}), 1e-15));
    EXPECT_TRUE(all_close(d[0], tensor<double>({self ? share : 0, self ? alone : 0}), 1e-15));
  }
}

TEST(Subscript, SecondDerivatives) {
  // The cases without ties: a maximum of equal elements has no second derivative.
  for (const auto& [name, f] : scatters()) {
    if (name.starts_with("ties") || name.starts_with("reduce.a")) continue;
    SCOPED_TRACE(name);
    const Golden golden("subscript.txt");
    Tensors xs;
    while (golden.has(concat(name, '.', xs.size())))
      xs.push_back(golden[concat(name, '.', xs.size())].clone().requires_grad_());
    const GradcheckResult result =
        gradgradcheck([f = f](X x) { return Tensors{square(f(x))}; }, xs);
    EXPECT_TRUE(result.ok) << result.message;
  }
}

TEST(Subscript, SecondDerivativesOfWritesThroughViews) {
  const Tensor x = tensor<double>({1, 2, 3}).requires_grad_();
  const GradcheckResult result =
      gradgradcheck([](X xs) { return Tensors{square(diag_embed(square(xs[0])))}; }, {x});
  EXPECT_TRUE(result.ok) << result.message;
}

TEST(Subscript, ReadsWithoutIndexTensorsAreViews) {
  const Tensor x = arange(24).to(f32).reshape({2, 3, 4});
  x[{0, Slice(None, None, 2)}].fill_(-1);
  EXPECT_EQ((x[{0, Slice(), 1}]).to_vector<std::int64_t>(), (Bytes{-1, 5, -1}));
  x[{Ellipsis}].zero_();
  EXPECT_EQ(sum(x).item(), 0);
  // With one, they are copies.
  x[positions({0})].fill_(1);
  EXPECT_EQ(sum(x).item(), 0);
}

TEST(Subscript, WritesAreInPlace) {
  const Tensor x = arange(12, {.dtype = i64}).reshape({3, 4});
  const Tensor column = x[{Slice(), 1}];
  x.index_put_({x % 2 == 1}, 0);
  EXPECT_EQ(x.to_vector<std::int64_t>(), (Bytes{0, 0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0}));
  EXPECT_EQ(column.to_vector<std::int64_t>(), (Bytes{0, 0, 0}));
  x.index_put_({positions({0, 0, 1}), positions({1, 1, 2})}, 1, true);
  EXPECT_EQ(x[0].to_vector<std::int64_t>(), (Bytes{0, 2, 2, 0}));
  // Of two values for one place the last one stays.
  x.index_put_({positions({1, 1})}, positions({5, 5, 5, 5, 7, 7, 7, 7}).reshape({2, 4}));
  EXPECT_EQ(x[1].to_vector<std::int64_t>(), (Bytes{7, 7, 7, 7}));
  // The value may share x's elements, and an expanded tensor is refused.
  Tensor z = arange(6, {.dtype = i64}).reshape({3, 2});
  z.index_put_({positions({2, 1})}, z[0]);
  z.index_put_({positions({0, 2})}, z.narrow(0, 1, 2));
  EXPECT_EQ(z.to_vector<std::int64_t>(), (Bytes{0, 1, 0, 1, 0, 1}));
  EXPECT_ERROR(ones({1}).expand({3}).index_put_({positions({0})}, 1), Error, "share one address");
  const std::uint64_t version = z.version();
  z.index_put_({positions({0})}, 5);
  EXPECT_GT(z.version(), version);
  // A 0-dim i64 tensor counts as a number: a view.
  z[scalar(1, {.dtype = i64})].fill_(7);
  EXPECT_EQ(z[1].to_vector<std::int64_t>(), (Bytes{7, 7}));
  // A view with steps, and all dtypes.
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean}) {
    const Tensor y = zeros({4, 4}, {.dtype = dtype});
    y[{Slice(None, None, 2), Slice(1)}].index_put_({positions({1}), positions({-1})}, 1);
    EXPECT_EQ(nonzero(y).to_vector<std::int64_t>(), (Bytes{2, 3})) << dtype;
  }
}

TEST(Subscript, WritesIntoABufferAreOnTheTape) {
  const Tensor w = full({2}, 3, {.dtype = f64}).requires_grad_();
  const Tensor buffer = zeros({3, 2}, {.dtype = f64});
  buffer.index_put_({positions({2, 0})}, square(w));
  sum(buffer * buffer).backward();
  EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{216, 216}));  // 2 · 4 w³
}

TEST(Subscript, Nonzero) {
  const Golden golden("subscript.txt");
  const Tensor mask = arange(60, {.dtype = i64}).reshape({3, 4, 5}) % 7 == 2;
  EXPECT_EQ(nonzero(mask).to_vector<std::int64_t>(), golden["nonzero"].to_vector<std::int64_t>());
  EXPECT_EQ(nonzero(zeros({2, 3})).shape(), (Dims{0, 2}));
  EXPECT_EQ(nonzero(zeros({0, 3})).shape(), (Dims{0, 2}));
  EXPECT_EQ(nonzero(ones({})).shape(), (Dims{1, 0}));
  EXPECT_EQ(nonzero(tensor({0.F, NAN, -0.F, 1.F})).to_vector<std::int64_t>(), (Bytes{1, 3}));
}

TEST(Subscript, ExtremesKeepNaN) {
  const Tensor x = zeros({1, 2}), index = zeros({1, 2}, {.dtype = i64});
  const Tensor y = scatter_reduce(x, 1, index, tensor({NAN, 1.F}).reshape({1, 2}), "amax");
  EXPECT_TRUE(std::isnan((y[{0, 0}].item())));
  EXPECT_EQ((y[{0, 1}].item()), 0);
  // f16 and integers, whose mean is rounded down.
  EXPECT_EQ(scatter_reduce(zeros({1}, {.dtype = f16}), 0, zeros({3}, {.dtype = i64}),
                           ones({3}, {.dtype = f16}), "mean")
                .item(),
            0.75);
  EXPECT_EQ(scatter_reduce(full({1}, -5, {.dtype = i64}), 0, zeros({1}, {.dtype = i64}),
                           zeros({1}, {.dtype = i64}), "mean")
                .item<std::int64_t>(),
            -3);
}

TEST(Subscript, Errors) {
  const Tensor x = ones({3, 4});
  EXPECT_ERROR(x.index({1, 2, 3}), ShapeError, "index: 3 indices are too many for shape [3, 4]");
  EXPECT_ERROR(x[3], ShapeError, "index 3 is out of range");
  EXPECT_ERROR((x[{Slice(), 4}]), ShapeError, "index 4 is out of range");
  EXPECT_ERROR((x[{Slice(), positions({1, -5})}]), ShapeError,
               "index: index -5 is out of range for dimension 1 of size 4 (valid: -4 to 3)");
  EXPECT_ERROR(x.index_put_({positions({3})}, 1), ShapeError,
               "index_put_: index 3 is out of range for dimension 0 of size 3");
  EXPECT_ERROR((x[{Ellipsis, Ellipsis}]), Error, "at most one Ellipsis");
  EXPECT_ERROR(x[Slice(0, 2, -1)], Error, "step -1 is not positive");
  EXPECT_ERROR(x[ones({3})], DTypeError,
               "is f32; expected i64 or i32 (positions), or bool (a mask)");
  EXPECT_ERROR(x[zeros({4}, {.dtype = boolean})], ShapeError,
               "a mask of shape [4] does not fit dimensions from 0 of shape [3, 4]");
  EXPECT_ERROR((x[{positions({0, 1}), positions({0, 1, 2})}]), ShapeError, "[2]");
  EXPECT_ERROR(x.index_put_({0}, ones({3})), ShapeError, "[3]");
  EXPECT_ERROR(x.index_put_({positions({0})}, ones({4}, {.dtype = f64})), DTypeError,
               "index_put_: the value is f64, the tensor f32");
  EXPECT_ERROR(zeros({2}, {.dtype = u8}).index_put_({0}, 300), Error, "300");
  EXPECT_EQ(sum(x).item(), 12);  // nothing was written
  const Tensor leaf = ones({2}).requires_grad_();
  EXPECT_ERROR(leaf.index_put_({0}, 1), AutogradError, "index_put_");
  EXPECT_ERROR(masked_select(x, x), DTypeError, "masked_select: the mask is f32, not bool");
  const Tensor zero = zeros({1, 1}, {.dtype = i64});
  EXPECT_ERROR(scatter_reduce(x, 0, zero, x, "max"), Error,
               "reduce = \"max\"; there are sum, prod, mean, amax and amin");
  EXPECT_ERROR(scatter(x, 0, zero + 3, x), ShapeError, "index 3 is out of range");
  EXPECT_ERROR(scatter(x, 0, zero, x.to(f64)), DTypeError, "the source is f64, the tensor f32");
  EXPECT_ERROR(index_copy(x, 0, positions({0, 1}), x), ShapeError, "needs [2, 4]");
  EXPECT_ERROR(index_fill(zeros({2}, {.dtype = u8}), 0, positions({0}), 300), Error, "300");
  // Two factors of one product are 0: the second derivative of the product is refused.
  const Tensor factors = zeros({2}, {.dtype = f64}).requires_grad_();
  const Tensor y =
      scatter_reduce(ones({1}, {.dtype = f64}), 0, zeros({2}, {.dtype = i64}), factors, "prod");
  EXPECT_ERROR(y.backward({}, true, true), AutogradError, "several factors that are 0");
  EXPECT_NO_THROW(y.backward());
}

}  // namespace
}  // namespace rondo::test
