// Indexing against PyTorch, and its errors.

#include "autograd/ops/indexing.h"

#include <limits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

Tensor indices(std::initializer_list<std::int64_t> values) { return tensor<std::int64_t>(values); }

TEST(Indexing, Slices) {
  expect_golden(
      "slice",
      [](X x) {
        return Tensors{select(x[0], 1, -1), narrow(x[0], 2, 1, 2), slice(x[0], 1, 0, -1, 2),
                       slice(x[0], -1, -3, 100), slice(x[0], 0, 1, 1)};
      },
      4);
}

TEST(Indexing, Selections) {
  expect_golden(
      "index_select",
      [](X x) {
        return Tensors{index_select(x[0], 1, x[1]), index_select(x[0], -1, x[1])};
      },
      4);
  expect_golden(
      "gather", [](X x) { return gather(x[0], 0, x[1]); }, 6);
  expect_golden(
      "scatter_add", [](X x) { return scatter_add(x[0], 0, x[1], x[2]); }, 6);
  expect_golden("masked_fill", [](X x) { return masked_fill(x[0], x[1], 1.5); });
}

TEST(Indexing, Embeddings) {
  expect_golden(
      "embedding", [](X x) { return embedding(x[1], x[0]); }, 3);
  expect_golden(
      "embedding.padding", [](X x) { return embedding(x[1], x[0], 3); }, 3);
  expect_golden(
      "embedding.padding", [](X x) { return embedding(x[1], x[0], 3 - x[1].size(0)); }, 3);
  expect_golden("one_hot", [](X x) { return one_hot(x[0], 4); });
}

TEST(Indexing, SlicesAreViews) {
  Tensor x = zeros({2, 3});
  select(x, 0, 1).fill_(1);
  narrow(x, 1, 0, 1).fill_(2);
  slice(x, 1, 1, 3, 2).fill_(3);
  EXPECT_TRUE(identical(x, tensor<float>({2, 3, 0, 2, 3, 1}, {2, 3})));
}

TEST(Indexing, GradientsOfSlicesOfALeafAddUp) {
  Tensor x = zeros({3}).requires_grad_();
  Tensor first = narrow(x, 0, 0, 2), second = x[1];
  (sum(first) + second * 10.0).backward();
  EXPECT_TRUE(identical(x.grad(), tensor<float>({1, 11, 0})));
}

TEST(Indexing, NothingSelected) {
  Tensor x = ones({2, 3}).requires_grad_();
  EXPECT_EQ(index_select(x, 1, zeros({0}, {.dtype = i64})).shape(), (Dims{2, 0}));
  EXPECT_EQ(narrow(x, 0, 2, 0).shape(), (Dims{0, 3}));
  EXPECT_EQ(slice(x, 0, 2, 1).shape(), (Dims{0, 3}));
  EXPECT_EQ(embedding(x, zeros({2, 0}, {.dtype = i64})).shape(), (Dims{2, 0, 3}));
  EXPECT_EQ(one_hot(zeros({0}, {.dtype = i64}), 3).shape(), (Dims{0, 3}));
  sum(narrow(x, 0, 0, 0)).backward();
  EXPECT_TRUE(identical(x.grad(), zeros({2, 3})));
}

TEST(Indexing, Errors) {
  Tensor x = zeros({2, 3}), floats = zeros({2});
  EXPECT_ERROR(select(x, 1, 3), ShapeError,
               "select: index 3 is out of range for dimension 1 of shape [2, 3] (valid: -3 to 2)");
  EXPECT_ERROR(select(zeros({0, 3}), 0, 0), ShapeError,
               "select: dimension 0 of shape [0, 3] is empty");
  EXPECT_ERROR(select(x, 0, -3), ShapeError, "select: index -3 is out of range");
  EXPECT_ERROR(select(scalar(1.0), 0, 0), ShapeError, "select: a tensor without dimensions");
  EXPECT_ERROR(narrow(x, 1, 2, 2), ShapeError,
               "narrow: start 2 and length 2 do not fit dimension 1 of shape [2, 3]");
  EXPECT_ERROR(narrow(x, 1, 0, -1), ShapeError, "narrow: start 0 and length -1");
  EXPECT_ERROR(slice(x, 1, 0, 3, 0), ShapeError, "slice: step 0 is not positive");
  EXPECT_ERROR(index_select(x, 0, floats), DTypeError,
               "index_select: the index is f32, not i64 or i32");
  EXPECT_ERROR(index_select(x, 0, zeros({1, 1}, {.dtype = i64})), ShapeError, "not one dimension");
  EXPECT_ERROR(index_select(x, 0, indices({0, 2})), ShapeError,
               "index_select: index 2 is out of range for dimension 0 of size 2 (valid: 0 to 1)");
  EXPECT_ERROR(gather(x, 0, indices({0})), ShapeError,
               "gather: index [1] does not fit the tensor [2, 3]");
  EXPECT_ERROR(gather(x, 0, zeros({1, 4}, {.dtype = i64})), ShapeError, "does not fit");
  EXPECT_ERROR(gather(x, 1, full({2, 1}, -1, {.dtype = i64})), ShapeError,
               "gather: index -1 is out of range");
  EXPECT_ERROR(scatter_add(x, 0, zeros({2, 2}, {.dtype = i64}), zeros({1, 2})), ShapeError,
               "scatter_add: index [2, 2] does not fit the source [1, 2]");
  EXPECT_ERROR(scatter_add(x, 0, zeros({1, 1}, {.dtype = i64}), zeros({1, 1}, {.dtype = f64})),
               DTypeError, "scatter_add: the source is f64, the tensor f32");
  EXPECT_ERROR(scatter_add(x, 0, full({1, 1}, 5, {.dtype = i64}), zeros({1, 1})), ShapeError,
               "scatter_add: index 5 is out of range");
  EXPECT_ERROR(masked_fill(x, zeros({2, 3}), 1), DTypeError,
               "masked_fill: the mask is f32, not bool");
  EXPECT_ERROR(masked_fill(x, zeros({4}, {.dtype = boolean}), 1), ShapeError, "do not broadcast");
  EXPECT_ERROR(embedding(floats, indices({0})), ShapeError, "embedding: the weight has shape [2]");
  EXPECT_ERROR(embedding(x, indices({2})), ShapeError,
               "embedding: index 2 is out of range for dimension 0 of size 2 (valid: 0 to 1)");
  EXPECT_ERROR(embedding(x, indices({0}), 2), ShapeError, "padding_idx 2 is not a row of [2, 3]");
  EXPECT_ERROR(embedding(x, indices({0}), -3), ShapeError, "padding_idx -3 is not a row of");
  EXPECT_ERROR(masked_fill(zeros({1}, {.dtype = u8}), tensor<bool>({true}), 300), Error,
               "the number 300 does not fit into u8");
  EXPECT_ERROR(one_hot(indices({3}), 3), ShapeError,
               "one_hot: index 3 is out of range for dimension 1 of size 3 (valid: 0 to 2)");
  EXPECT_ERROR(
      index_select(zeros({0}), 0, indices({0})), ShapeError,
      "index_select: index 0 is out of range for dimension 0 of size 0 (no index is valid)");
  EXPECT_ERROR(one_hot(indices({0}), 0), ShapeError, "one_hot: 0 classes");
}

TEST(Indexing, IntegersWrapAround) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Tensor x = tensor<std::int64_t>({most});
  EXPECT_EQ(scatter_add(x, 0, zeros({1}, {.dtype = i64}), x).item<std::int64_t>(), -2);
}

// Tensors without dimensions act as rows of one element. Expected numbers are PyTorch's.
TEST(Indexing, TensorsWithoutDimensions) {
  const Tensor x = scalar(5).requires_grad_(), zero = scalar(0, {.dtype = i64});
  EXPECT_EQ(index_select(x, 0, zero).shape(), Dims{});
  EXPECT_EQ(index_select(x, 0, tensor<std::int64_t>({0})).shape(), Dims{});
  EXPECT_EQ(index_select(arange(3), 0, scalar(1, {.dtype = i64})).to_vector<int>(),
            (std::vector<int>{1}));
  EXPECT_ERROR(index_select(x, 0, tensor<std::int64_t>({0, 0})), ShapeError,
               "index_select: the tensor has no dimensions, so the index must have one value");
  EXPECT_EQ(gather(x, 0, zero).shape(), Dims{});
  EXPECT_EQ(gather(x, 0, tensor<std::int64_t>({0})).shape(), Dims{1});
  EXPECT_EQ(scatter_add(x, 0, zero, scalar(2)).item(), 7);
  index_select(x, 0, zero).backward();
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Indexing, StepsBeyondAllSizes) {
  const Tensor x = arange(6).reshape({3, 2});
  EXPECT_EQ(slice(x, 0, 1, 3, std::int64_t{1} << 62).to_vector<int>(), (std::vector<int>{2, 3}));
}

}  // namespace
}  // namespace rondo::test
