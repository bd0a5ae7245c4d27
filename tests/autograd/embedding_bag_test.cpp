// embedding_bag and bilinear against PyTorch (tests/golden/make_more_layers.py), and their errors.

#include "autograd/ops/embedding_bag.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/matmul.h"
#include "nn/bilinear.h"
#include "nn/embedding.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

TEST(EmbeddingBag, AgreesWithPyTorch) {
  const Golden golden("more_layers.txt");
  const Tensor index = tensor<std::int64_t>({4, 0, 0, 2, 1, 3, 2, 5});
  const std::pair<std::string, BagMode> modes[] = {
      {"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
  for (const auto& [name, mode] : modes) {
    const Tensor offsets = tensor<std::int64_t>({0, 3, 3, 4, 8});
    expect_case(
        golden, "bag." + name + ".None",
        [&, mode = mode](X x) { return embedding_bag(x[0], index, offsets, {.mode = mode}); }, 8);
    expect_case(
        golden, "bag." + name + ".2",
        [&, mode = mode](X x) {
          return embedding_bag(x[0], index, offsets, {.mode = mode, .padding_idx = -4});
        },
        8);
  }
  expect_case(
      golden, "bag.last",
      [&](X x) {
        return embedding_bag(x[0], index, tensor<std::int64_t>({0, 3, 8}),
                             {.include_last_offset = true});
      },
      8);
  nn::EmbeddingBag bag(6, 3, {.mode = BagMode::sum});
  expect_case(
      golden, "bag.weights",
      [&](X x) {
        bag.weight = x[0];
        return bag(index, tensor<std::int64_t>({0, 3}), x[1]);
      },
      8);
}

TEST(EmbeddingBag, StartsAsPyTorchs) {
  nn::EmbeddingBag bag(6, 3, {.padding_idx = -1});
  ASSERT_EQ(bag.state_dict().size(), 1U);
  EXPECT_EQ(bag.state_dict()[0].name, "weight");
  EXPECT_TRUE(identical(bag.weight.detach()[5], zeros({3})));
  // Bags without elements, and no bags.
  EXPECT_TRUE(identical(bag(zeros({2, 0}, {.dtype = i64})), zeros({2, 3})));
  EXPECT_EQ(bag(zeros({0, 4}, {.dtype = i64})).shape(), (Dims{0, 3}));
}

/// With include_last_offset the last bag ends there, also before the end of the index.
TEST(EmbeddingBag, ElementsAfterTheLastOffsetBelongToNoBag) {
  const Tensor weight = arange(5.0).unsqueeze(1), index = tensor<std::int64_t>({1, 2, 3, 4});
  const Tensor ends = tensor<std::int64_t>({0, 1, 3});
  for (const auto& [mode, last] :
       {std::pair(BagMode::sum, 5.0F), {BagMode::mean, 2.5F}, {BagMode::max, 3.0F}}) {
    const Tensor y =
        embedding_bag(weight, index, ends, {.mode = mode, .include_last_offset = true});
    EXPECT_EQ(y.to_vector(), (std::vector<float>{1, last}));
  }
}

TEST(EmbeddingBag, TheLastOffsetOfRowsAndOfNoBag) {
  const Tensor weight = arange(5.0).unsqueeze(1), rows = tensor<std::int64_t>({1, 2, 3, 4}, {2, 2});
  const EmbeddingBagOptions options{.mode = BagMode::sum, .include_last_offset = true};
  EXPECT_EQ(embedding_bag(weight, rows, {}, options).to_vector(), (std::vector<float>{3, 7}));
  EXPECT_EQ(embedding_bag(weight, rows[0], tensor<std::int64_t>({0}), options).shape(),
            (Dims{0, 1}));
}

TEST(EmbeddingBag, NoIndexHasTheGradientZero) {
  const Tensor weight = ones({4, 2}).requires_grad_();
  for (const BagMode mode : {BagMode::sum, BagMode::max}) {
    embedding_bag(weight, zeros({2, 0}, {.dtype = i64}), {}, {.mode = mode}).sum().backward();
    EXPECT_TRUE(identical(weight.grad(), zeros({4, 2})));
  }
}

TEST(EmbeddingBag, TakesIntegersOf32Bits) {
  const Tensor weight = randn({4, 2}), index = tensor<std::int32_t>({0, 3, 1}),
               offsets = tensor<std::int32_t>({0, 2});
  EXPECT_TRUE(test::identical(embedding_bag(weight, index, offsets),
                              embedding_bag(weight, index.to(i64), offsets.to(i64))));
}

TEST(EmbeddingBag, Errors) {
  const Tensor weight = zeros({4, 2}), index = zeros({3}, {.dtype = i64});
  const auto offsets = [](std::initializer_list<std::int64_t> v) { return tensor(v); };
  EXPECT_ERROR(embedding_bag(weight, index), ShapeError, "expected an index (B, L)");
  EXPECT_ERROR(embedding_bag(weight, index.reshape({1, 3}), offsets({0})), ShapeError,
               "expected an index (B, L)");
  EXPECT_ERROR(embedding_bag(weight, index, offsets({1, 2})), ShapeError, "offset 1 at 0");
  EXPECT_ERROR(embedding_bag(weight, index, offsets({0, 2, 1})), ShapeError, "offset 1 at 2");
  EXPECT_ERROR(embedding_bag(weight, index, offsets({0, 4})), ShapeError, "offset 4 at 1");
  EXPECT_ERROR(embedding_bag(weight, index, zeros({1})), DTypeError, "the offsets are f32");
  EXPECT_ERROR(embedding_bag(weight, index + 4, offsets({0})), ShapeError, "4");
  EXPECT_ERROR(embedding_bag(weight, index, offsets({0}), {.per_sample_weights = ones({3})}), Error,
               "per_sample_weights need the mode sum");
  EXPECT_ERROR(embedding_bag(weight, index, offsets({0}),
                             {.mode = BagMode::sum, .per_sample_weights = ones({2})}),
               ShapeError, "must have the shape of the index, [3]");
  EXPECT_ERROR(embedding_bag(weight, index, offsets({})), ShapeError, "3 indices, but no bag");
  EXPECT_ERROR(nn::EmbeddingBag(0, 3), ShapeError, "EmbeddingBag: a table of 0 x 3");
}

TEST(Bilinear, AgreesWithPyTorch) {
  nn::Bilinear layer(2, 4, 5);
  EXPECT_LE(layer.weight.abs().max().item(), 1 / std::sqrt(2.0));
  EXPECT_EQ(layer.state_dict()[1].name, "bias");
  expect_case(
      Golden("more_layers.txt"), "bilinear",
      [&](X x) {
        layer.weight = x[2];
        layer.bias = x[3];
        return layer(x[0], x[1]);
      },
      48);
  EXPECT_ERROR(layer(zeros({3, 2}), zeros({3, 3})), ShapeError,
               "bilinear: inputs [3, 2] and [3, 3] do not fit weight [5, 2, 4]");
  EXPECT_ERROR(nn::Bilinear(0, 1, 1), ShapeError, "Bilinear: 0 and 1 to 1 features");
}

TEST(Linear, Errors) {
  const Tensor x = ones({3, 4});
  EXPECT_ERROR(linear(x, ones({5, 3})), ShapeError,
               "linear: input [3, 4] does not fit a weight of shape [5, 3] (out, in)");
  EXPECT_ERROR(linear(x, ones({4}), ones({1})), ShapeError, "takes no bias");
  EXPECT_ERROR(linear(x, ones({5})), ShapeError, "does not fit a weight of shape [5] (in)");
  EXPECT_ERROR(linear(x, ones({5, 4}), ones({4})), ShapeError,
               "linear: bias [4] for a weight of shape [5, 4]");
}

TEST(ExchangedDims, Errors) {
  EXPECT_ERROR(pixel_shuffle(zeros({3, 2, 2}), 2), ShapeError,
               "pixel_shuffle: the 3 channels of input [3, 2, 2] cannot be divided by 4");
  EXPECT_ERROR(pixel_unshuffle(zeros({3, 3, 2}), 2), ShapeError, "height and width");
  EXPECT_ERROR(pixel_shuffle(zeros({3, 2}), 2), ShapeError, "pixel_shuffle: input [3, 2]");
  EXPECT_ERROR(channel_shuffle(zeros({1, 4, 2}), 3), ShapeError, "into 3 groups");
}

}  // namespace
}  // namespace rondo::test
