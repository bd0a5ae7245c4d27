// Changes of shape against PyTorch: values, views or copies, errors.

#include "autograd/ops/shape.h"

#include "autograd/autograd_meta.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/interpolate.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

bool share(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }

TEST(Shape, AgreesWithPyTorch) {
  expect_golden(
      "reshape",
      [](X x) {
        return Tensors{reshape(x[0], {4, -1}), reshape(transpose(x[0], 0, 2), {-1}),
                       flatten(permute(x[0], {2, 0, 1}), 1)};
      },
      3);
  expect_golden(
      "expand",
      [](X x) {
        return Tensors{expand(x[0], {3, 2, 5, 4}), expand(x[0], {-1, 2, -1})};
      },
      17);
  expect_golden(
      "permute",
      [](X x) {
        return Tensors{permute(x[0], {1, 2, 0}), transpose(x[0], -1, 0),
                       squeeze(unsqueeze(x[0], -1), 3)};
      },
      3);
  expect_golden(
      "flip",
      [](X x) {
        return Tensors{flip(x[0], {0}), flip(x[0], {0, -1}), flip(x[0], {2})};
      },
      3);
  expect_golden(
      "cat",
      [](X x) {
        return Tensors{cat({x[0], x[1], x[0]}, 1), stack({x[0], x[0]}, -1)};
      },
      4);
  expect_golden(
      "split",
      [](X x) {
        Tensors parts;
        for (const Tensors& some :
             {split(x[0], 2, 2), split(x[0], 2, 1), chunk(x[0], 2, 1), chunk(x[0], 3, 2)}) {
          parts.insert(parts.end(), some.begin(), some.end());
        }
        return parts;
      },
      4);
}

TEST(Shape, AReshapeIsAViewWhereStridesAllow) {
  Tensor x = arange(24).reshape({2, 3, 4});
  EXPECT_TRUE(share(reshape(x, {6, 4}), x));
  EXPECT_TRUE(share(reshape(x, {2, 1, 12, 1}), x));
  EXPECT_TRUE(share(reshape(x.transpose(0, 1), {3, 2, 2, 2}), x));
  EXPECT_TRUE(share(reshape(x.narrow(1, 0, 2), {2, 8}), x));
  EXPECT_FALSE(share(reshape(x.transpose(0, 1), {6, 4}), x));
  EXPECT_FALSE(share(reshape(x.narrow(2, 0, 2), {12}), x));
  Tensor repeated = expand(zeros({1, 3}), {4, 3});
  EXPECT_TRUE(share(reshape(repeated, {2, 2, 3}), repeated));
  EXPECT_FALSE(share(reshape(repeated, {12}), repeated));
  EXPECT_EQ(reshape(zeros({0, 3}), {3, 0, 2}).shape(), (Dims{3, 0, 2}));
  EXPECT_EQ(reshape(scalar(1.0), {1, 1}).shape(), (Dims{1, 1}));
}

TEST(Shape, ChannelsLastIsOnlyAnOrderInMemory) {
  Tensor x = arange(48).reshape({2, 4, 3, 2});
  Tensor last = contiguous(x, MemoryFormat::channels_last);
  EXPECT_TRUE(last.is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(identical(last, x));
  EXPECT_TRUE(identical(reshape(last, {8, 6}), reshape(x, {8, 6})));
  EXPECT_TRUE(identical(flatten(last, 1), flatten(x, 1)));
  EXPECT_TRUE(identical(flip(last, {1, 3}), flip(x, {1, 3})));
  EXPECT_TRUE(share(contiguous(last, MemoryFormat::channels_last), last));
  EXPECT_TRUE(clone(last).is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(cat({last, last}).is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(identical(cat({last, x}, 1), cat({x, x}, 1)));
  EXPECT_TRUE(to(last, f32).is_contiguous(MemoryFormat::channels_last));

  Tensor pooled = contiguous(randn({4, 3, 1, 1}), MemoryFormat::channels_last);
  EXPECT_TRUE(share(flatten(pooled, 1), pooled));
  Tensor odd_strides = pooled.as_view({4, 3, 1, 1}, {3, 1, 3, 3}, 0);
  EXPECT_TRUE(share(flatten(odd_strides, 1), odd_strides));
  EXPECT_TRUE(identical(flatten(odd_strides, 1), flatten(pooled, 1)));
}

TEST(Shape, PartsAreViewsBehindOneNode) {
  const Tensor x = arange(24).to(f32).reshape({2, 3, 4}).requires_grad_();
  const Tensor y = x * 1.0;
  const Tensors rows = unbind(y, 1), halves = split(y, 2, 2);
  ASSERT_EQ(rows.size(), 3u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(share(rows[i], y));
    EXPECT_TRUE(identical(rows[i].detach(), y.select(1, static_cast<std::int64_t>(i)).detach()));
    EXPECT_EQ(autograd_meta(rows[i]).grad_fn, autograd_meta(rows[0]).grad_fn);
  }
  EXPECT_EQ(autograd_meta(halves[0]).grad_fn, autograd_meta(halves[1]).grad_fn);
  rows[1].fill_(0);  // PyTorch refuses this
  y.sum().backward();
  EXPECT_TRUE(identical(x.grad().select(1, 1), zeros({2, 4})));
  EXPECT_TRUE(identical(x.grad().select(1, 2), ones({2, 4})));
}

TEST(Shape, ViewsSeeEachOthersWrites) {
  Tensor x = zeros({2, 3});
  transpose(x, 0, 1).select(0, 2).fill_(5);
  EXPECT_TRUE(identical(x, tensor<float>({0, 0, 5, 0, 0, 5}, {2, 3})));
  EXPECT_EQ(x.version(), view(x, {6}).version());
  EXPECT_GT(x.version(), 0u);
}

TEST(Shape, CatGivesNothingsAGradientOfNothing) {
  Tensor a = zeros({0, 3}).requires_grad_(), b = ones({2, 3}).requires_grad_();
  Tensor legacy = zeros({0}).requires_grad_();
  cat({a, legacy, b}).sum().backward();
  EXPECT_EQ(a.grad().shape(), (Dims{0, 3}));
  EXPECT_EQ(legacy.grad().shape(), (Dims{0}));
  EXPECT_TRUE(test::identical(b.grad(), ones({2, 3})));
}

TEST(Shape, CatPromotesAndToConverts) {
  // Tensors of shape (0) are skipped, but take part in promotion.
  Tensor none = zeros({0}, {.dtype = f64}).requires_grad_(), some = ones({2, 3}).requires_grad_();
  Tensor grown = cat({none, some, none}, 1);
  EXPECT_EQ(grown.shape(), (Dims{2, 3}));
  EXPECT_EQ(grown.dtype(), f64);
  grown.sum().backward();
  EXPECT_TRUE(identical(some.grad(), ones({2, 3})));
  EXPECT_EQ(cat({zeros({0}), zeros({0})}).shape(), (Dims{0}));
  Tensor mixed = cat({tensor<std::int64_t>({1}), tensor<float>({2.5f})});
  EXPECT_EQ(mixed.dtype(), f32);
  EXPECT_TRUE(identical(mixed, tensor<float>({1, 2.5f})));
  Tensor x = tensor<float>({-1.75f, 0, 300});
  EXPECT_TRUE(identical(to(x, i32), tensor<std::int32_t>({-1, 0, 300})));
  EXPECT_TRUE(identical(to(x, boolean), tensor<bool>({true, false, true})));
  EXPECT_TRUE(to(x, f32).is_same(x));
  Tensor leaf = ones({2}).requires_grad_();
  EXPECT_FALSE(to(leaf, i64).requires_grad());
  sum(to(leaf, f64) * 3).backward();
  EXPECT_EQ(leaf.grad().dtype(), f32);
  EXPECT_TRUE(identical(leaf.grad(), full({2}, 3.0)));
}

TEST(Shape, ChunksAsInPyTorch) {
  auto lengths = [](const Tensors& parts) {
    std::vector<std::int64_t> sizes;
    for (const Tensor& part : parts) sizes.push_back(part.size(0));
    return sizes;
  };
  EXPECT_EQ(lengths(chunk(zeros({7}), 3)), (std::vector<std::int64_t>{3, 3, 1}));
  EXPECT_EQ(lengths(chunk(zeros({6}), 4)), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(lengths(chunk(zeros({2}), 5)), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(lengths(split(zeros({5}), 2)), (std::vector<std::int64_t>{2, 2, 1}));
  EXPECT_EQ(lengths(split(zeros({0}), 2)), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(unbind(zeros({0, 3})).empty());
}

TEST(Shape, Errors) {
  Tensor x = zeros({2, 3});
  EXPECT_ERROR(reshape(x, {4}), ShapeError,
               "reshape: shape [4] has 4 elements, the tensor [2, 3] has 6");
  EXPECT_ERROR(reshape(x, {-1, 4}), ShapeError, "does not fit the 6 elements of [2, 3]");
  EXPECT_ERROR(reshape(x, {-1, -1}), ShapeError, "only one size of [-1, -1] can be -1");
  EXPECT_ERROR(reshape(x, {-2, 3}), ShapeError, "has the size -2");
  EXPECT_ERROR(reshape(zeros({0}), {-1, 0}), ShapeError, "does not fit the 0 elements");
  EXPECT_ERROR(view(transpose(x, 0, 1), {6}), ShapeError, "without a copy; use reshape");
  EXPECT_ERROR(flatten(x, 1, 0), ShapeError, "flatten: start_dim 1 comes after end_dim 0");
  EXPECT_ERROR(squeeze(x, 2), ShapeError, "squeeze: dimension 2");
  EXPECT_ERROR(unsqueeze(x, 3), ShapeError, "unsqueeze: dimension 3");
  EXPECT_ERROR(expand(x, {3}), ShapeError, "expand: shape [3] has fewer dimensions than [2, 3]");
  EXPECT_ERROR(expand(x, {4, 3}), ShapeError, "expand: shape [2, 3] does not expand to [4, 3]");
  EXPECT_ERROR(expand(x, {-1, 2, 3}), ShapeError, "-1 is not allowed for the new dimension 0");
  EXPECT_ERROR(permute(x, {0}), ShapeError, "permute: order [0] names 1 dimensions");
  EXPECT_ERROR(permute(x, {0, 0}), ShapeError, "permute: dimension 0 appears twice");
  EXPECT_ERROR(transpose(x, 0, 2), ShapeError, "transpose: dimension 2");
  EXPECT_ERROR(flip(x, {1, -1}), ShapeError, "flip: dimension 1 appears twice");
  EXPECT_ERROR(cat({}), ShapeError, "cat: the list of tensors is empty");
  EXPECT_ERROR(cat({x, zeros({2, 4})}), ShapeError,
               "cat: tensor 1 of shape [2, 4] does not join with [2, 3]");
  EXPECT_ERROR(cat({scalar(1.0)}), ShapeError, "without dimensions cannot be joined");
  EXPECT_ERROR(stack({x, zeros({3, 2})}), ShapeError, "stack: tensor 1 has the shape [3, 2]");
  EXPECT_ERROR(unbind(zeros({})), ShapeError, "unbind: a tensor without dimensions");
  EXPECT_THROW(unbind(x, 5), ShapeError);
  EXPECT_ERROR(split(x, 0), ShapeError, "split: size 0 is not positive");
  EXPECT_ERROR(chunk(x, 0), ShapeError, "chunk: 0 chunks");
  EXPECT_ERROR(contiguous(x, MemoryFormat::channels_last), ShapeError, "layout of 4 dimensions");
  EXPECT_ERROR(to(x, Device::cuda(63)), DeviceError, "cuda:63");
}

TEST(Shape, AnEmptyDimensionHasAsManyChunksAsAreAskedFor) {
  const Tensors rows = chunk(zeros({0, 3}), 3), columns = chunk(zeros({3, 0}), 2, 1);
  EXPECT_EQ(rows.size(), 3u);
  EXPECT_EQ(columns.size(), 2u);
  for (const Tensor& part : rows) EXPECT_EQ(part.shape(), (Dims{0, 3}));
  EXPECT_EQ(split(zeros({0, 3}), 0)[0].shape(), (Dims{0, 3}));  // size 0 only of nothing
  EXPECT_ERROR(split(zeros({2, 3}), 0), ShapeError, "split: size 0 is not positive");
  const Tensor x = zeros({0, 3}).requires_grad_();
  cat(chunk(x, 2)).sum().backward();
  EXPECT_EQ(x.grad().shape(), (Dims{0, 3}));
}

// Integer overflow would give a tensor of a wrong shape, or crash.
TEST(Shape, SizesBeyond63BitsAreRefused) {
  constexpr std::int64_t huge = std::int64_t{1} << 62, most = INT64_MAX;
  const Tensor x = ones({1, 1, 4, 4}), w = ones({1, 1, 2, 2}), line = ones({1, 1, 4});
  EXPECT_ERROR(conv2d(x, w, {}, {.dilation = huge}), ShapeError, "larger than the padded input");
  EXPECT_ERROR(conv2d(x, w, {}, {.dilation = most}), ShapeError, "larger than the padded input");
  EXPECT_ERROR(conv2d(x, ones({1, 1, 3, 3}), {}, {.dilation = huge}), ShapeError,
               "convolution: 4611686018427387904 * 2 is beyond the largest size");
  EXPECT_ERROR(conv2d(x, w, {}, {.padding = huge}), ShapeError, "convolution: ");
  EXPECT_ERROR(conv2d(x, ones({4, 4, 1, 1}), {}, {.groups = huge}), ShapeError, "conv2d: ");
  EXPECT_ERROR(conv1d(line, ones({1, 1, 3}), {}, {.dilation = huge}), ShapeError, "convolution: ");
  EXPECT_ERROR(conv1d(line, ones({1, 4, 1}), {}, {.groups = huge}), ShapeError, "conv1d: ");
  EXPECT_ERROR(conv_transpose2d(x, w, {}, {.stride = huge}), ShapeError, "conv_transpose2d: ");
  EXPECT_ERROR(conv_transpose2d(x, w, {}, {.padding = huge}), ShapeError, "conv_transpose2d: ");
  EXPECT_ERROR(max_pool2d(x, most, {.padding = huge - 1}), ShapeError, "");
  EXPECT_ERROR(avg_pool2d(x, 2, {.padding = huge}), ShapeError, "");
  EXPECT_ERROR(max_pool2d(x, 3, {.stride = 1, .dilation = huge}), ShapeError,
               "max_pool2d: 4611686018427387904 * 2 is beyond the largest size");
  EXPECT_ERROR(max_pool2d(x, 5, {.stride = 1, .dilation = huge}), ShapeError, "max_pool2d: ");
  EXPECT_ERROR(max_pool1d(line, 5, {.dilation = huge}), ShapeError, "max_pool1d: ");
  EXPECT_ERROR(expand(ones({1}), {huge, huge}), ShapeError, "more than 2^63 elements");
  EXPECT_ERROR(repeat_interleave(ones({4}), tensor<std::int64_t>({huge, huge, huge, huge}), 0),
               Error, "the repeats add up to 2^63 or more");
  EXPECT_ERROR(max_unpool2d(x, zeros({1, 1, 4, 4}, {.dtype = i64}), huge), ShapeError,
               "max_unpool2d: ");
  EXPECT_ERROR(lp_pool2d(x, 2, huge), ShapeError, "lp_pool2d: ");
  EXPECT_ERROR(pixel_shuffle(x, std::int64_t{1} << 32), ShapeError, "pixel_shuffle: ");
  EXPECT_ERROR(pad(line, {huge, huge}), ShapeError, "pad: ");
  EXPECT_ERROR(interpolate(line, {.scale_factor = {1e19}}), ShapeError,
               "interpolate: 4 elements times 1e+19 are beyond the largest size");
  EXPECT_ERROR(diag_embed(ones({2}), INT64_MIN), ShapeError, "diag_embed: ");
  EXPECT_ERROR(line.repeat({1, 1, huge}), ShapeError, "repeat: ");
  EXPECT_ERROR(zeros({0}).tile({huge, huge}), ShapeError, "");
  EXPECT_EQ(zeros({0}).repeat({huge}).shape(), Dims{0});
  EXPECT_EQ(max_pool2d(x, 2, {.stride = most, .ceil_mode = true}).shape(), (Dims{1, 1, 1, 1}));
  EXPECT_ERROR(reshape(x, {huge, 4, -1}), ShapeError, "reshape: ");
  EXPECT_ERROR(view(zeros({0}), {huge, huge, -1}), ShapeError, "view: ");
  EXPECT_ERROR(cat({zeros({1}).expand({most}), zeros({1}).expand({most})}), ShapeError, "cat: ");
  EXPECT_EQ(chunk(arange(4), most).size(), 4u);
  EXPECT_EQ(split(arange(4), most).size(), 1u);
  // With a kernel of one element the dilation does not matter; PyTorch accepts it too.
  EXPECT_EQ(conv2d(x, ones({1, 1, 1, 1}), {}, {.dilation = huge}).shape(), x.shape());
}

}  // namespace
}  // namespace rondo::test
