// Splitting, joining and turning tensors, against PyTorch (tests/golden/make_more_ops.py).

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
using Whole = std::vector<std::int64_t>;

Tensor backwards(Tensors parts) {
  std::reverse(parts.begin(), parts.end());
  return cat(parts, 1);
}

TEST(ComposedShape, ResultsAndGradientsAreThoseOfPyTorch) {
  const Tensor mask = tensor<bool>({true, false, true, false, true, true}, {2, 3});
  GoldenCases cases = {
      {"split.sizes",
       [](X x) {
         return backwards(split(x[0], {1, 3, 0, 2}, 1));
       }},
      {"tensor_split", [](X x) { return backwards(tensor_split(x[0], 4, 1)); }},
      {"tensor_split.indices",
       [](X x) {
         return backwards(tensor_split(x[0], {1, 4, 9}, 1));
       }},
      {"unfold.method", [](X x) { return x[0].unfold(1, 3, 2); }},
      {"unfold.last", [](X x) { return x[0].unfold(-1, 2, 1); }},
      {"hstack.numbers", hstack},
      {"column_stack.mixed", column_stack},
      {"fliplr", [](X x) { return fliplr(x[0]); }},
      {"flipud", [](X x) { return flipud(x[0]); }},
      {"rot90.dims",
       [](X x) {
         return rot90(x[0], 1, {2, 0});
       }},
      {"block_diag", block_diag},
      {"cartesian_prod", cartesian_prod},
      {"inner", [](X x) { return inner(x[0], x[1]); }},
      {"cross", [](X x) { return cross(x[0], x[1], -1); }},
      {"cross.first", [](X x) { return cross(x[0], x[1]); }},
      {"kron", [](X x) { return kron(x[0], x[1]); }},
      {"kron.ranks", [](X x) { return kron(x[0], x[1]); }},
      {"masked_scatter", [=](X x) { return masked_scatter(x[0], mask, x[1]); }},
      {"masked_scatter.broadcast", [=](X x) { return x[0].masked_scatter(mask[0], x[1]); }},
      {"take",
       [](X x) {
         return take(x[0], tensor<std::int64_t>({0, 5, -1, 2}, {2, 2}));
       }},
      {"take_along_dim.flat",
       [](X x) {
         return take_along_dim(x[0], tensor<std::int64_t>({5, 0, 3, 2}, {2, 2}));
       }},
  };
  const char* equations[] = {"ij,ij->ji", "i,ij,k->kji", "bi,bj->bij", "...i,i->...i"};
  for (std::size_t i = 0; i < 4; ++i)
    cases[concat("einsum.", i)] = [e = equations[i]](X x) { return einsum(e, x); };
  using Joining = Tensor (*)(X);
  for (const auto& [name, f] : {std::pair<std::string, Joining>{"hstack", hstack},
                                {"vstack", vstack},
                                {"dstack", dstack},
                                {"column_stack", column_stack}})
    cases[name + ".vectors"] = cases[name + ".matrices"] = f;
  for (const std::int64_t k : {-1, 0, 1, 2, 3})
    cases[concat("rot90.", k)] = [k](X x) { return rot90(x[0], k); };
  using Unary = Tensor (*)(const Tensor&);
  for (const auto& [name, f] : {std::pair<std::string, Unary>{"atleast_1d", atleast_1d},
                                {"atleast_2d", atleast_2d},
                                {"atleast_3d", atleast_3d}})
    cases[name] = cases[name + ".number"] = [f = f](X x) { return f(x[0]); };
  expect_cases("more_ops.txt", cases);
}

TEST(ComposedShape, PositionsAndPowersAreThoseOfPyTorch) {
  const Golden golden("more_ops.txt");
  EXPECT_TRUE(identical(tril_indices(3, 4, 1).contiguous(), golden["tril_indices.y"]));
  EXPECT_TRUE(identical(triu_indices(4, 3, -1).contiguous(), golden["triu_indices.y"]));
  EXPECT_TRUE(all_close(vander(golden["vander.0"]), golden["vander.y"], 1e-15));
  EXPECT_TRUE(
      identical(vander(golden["vander.increasing.0"], 2, true), golden["vander.increasing.y"]));
  EXPECT_TRUE(all_close(logspace(-1, 2, 5, 10, {.dtype = f64}), golden["logspace.y"], 1e-14));
  EXPECT_TRUE(all_close(logspace(0, 3, 4, 2, {.dtype = f64}), golden["logspace.2.y"], 1e-15));
}

TEST(ComposedShape, ViewsShareMemory) {
  const Tensor x = zeros({2, 6});
  split(x, {2, 4}, 1)[1].fill_(1);
  tensor_split(x, {1}, 1)[0].fill_(2);
  EXPECT_EQ(x[0].to_vector(), (std::vector<float>{2, 0, 1, 1, 1, 1}));
  EXPECT_EQ(split(x[0], {6}).size(), 1U);
  EXPECT_EQ(x.split({2}).size(), 1U);
  EXPECT_EQ(x.split(1).size(), 2U);
  EXPECT_EQ(swapaxes(x, 0, 1).storage(), x.storage());
  EXPECT_EQ(broadcast_to(x, {3, 2, 6}).shape(), (Dims{3, 2, 6}));
  const Tensors both = broadcast_tensors({ones({2, 1}), ones({3})});
  EXPECT_EQ(both[0].shape(), (Dims{2, 3}));
  EXPECT_EQ(both[1].shape(), (Dims{2, 3}));
}

TEST(ComposedShape, SizesNeedNoBraces) {
  const Tensor x = arange(6).reshape(2, 3);
  EXPECT_EQ(x.view(3, -1).shape(), (Dims{3, 2}));
  EXPECT_EQ(x.permute(1, 0).shape(), (Dims{3, 2}));
  EXPECT_EQ(x.expand(2, -1, 3).shape(), (Dims{2, 2, 3}));
  EXPECT_EQ(x.repeat(1, 2).shape(), (Dims{2, 6}));
  EXPECT_EQ(x.tile(2, 1).shape(), (Dims{4, 3}));
  EXPECT_EQ(x.flip(0, 1)[0].to_vector<std::int64_t>(), (Whole{5, 4, 3}));
  EXPECT_EQ(x.reshape_as(ones({3, 2})).shape(), (Dims{3, 2}));
  EXPECT_EQ(x[0].expand_as(x).shape(), (Dims{2, 3}));
  EXPECT_EQ(x.mT().shape(), (Dims{3, 2}));
}

TEST(ComposedShape, PositionsOfTrueElements) {
  const Tensor mask = tensor<bool>({true, false, true, false, true, true}, {2, 3});
  const Tensors places = where(mask);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].to_vector<std::int64_t>(), (Whole{0, 0, 1, 1}));
  EXPECT_EQ(places[1].to_vector<std::int64_t>(), (Whole{0, 2, 1, 2}));
}

TEST(ComposedShape, Errors) {
  const Tensor m = ones({2, 3});
  EXPECT_ERROR(split(m, {1, 1}, 1), ShapeError, "the sizes add up to 2, dimension 1 of [2, 3]");
  EXPECT_ERROR(split(m, {2, 2}, 1), ShapeError, "split: size 2 does not fit the remaining 1");
  EXPECT_ERROR(tensor_split(m, 0), ShapeError, "0 sections is not a positive number");
  EXPECT_ERROR(m.unfold(1, 4, 1), ShapeError, "do not fit dimension 1 of [2, 3]");
  EXPECT_ERROR(fliplr(ones({2})), ShapeError, "fliplr: expected at least 2 dimensions");
  EXPECT_ERROR(rot90(m, 1, {0}), ShapeError, "rot90: expected two dimensions");
  EXPECT_ERROR(rot90(m, 1, {0, -2}), ShapeError, "are the same");
  EXPECT_ERROR(block_diag({ones({1, 1, 1})}), ShapeError, "block_diag: expected matrices");
  EXPECT_ERROR(cross(ones({2}), ones({2})), ShapeError, "no dimension of [2] has the size 3");
  EXPECT_ERROR(cross(m, m, 0), ShapeError, "dimension 0 of [2, 3] does not have the size 3");
  EXPECT_ERROR(vander(m), ShapeError, "vander: expected a vector");
  EXPECT_ERROR(hstack({}), ShapeError, "hstack: the list of tensors is empty");
  EXPECT_ERROR(masked_scatter(m, m > 0, ones({5})), ShapeError,
               "the mask is true for 6 elements, but the source [5] has 5");
  EXPECT_ERROR(masked_scatter(m, m, m), DTypeError, "masked_scatter: the mask is f32, not bool");
  EXPECT_ERROR(take(m, tensor<std::int64_t>({6})), ShapeError, "index 6");
}

}  // namespace
}  // namespace rondo::test
