// Indices of max pooling, and what they are for (tests/golden/make_more_layers.py); errors.
// tests/nn/layers_test.cpp compares the pooling layers with PyTorch.

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/fold.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "nn/pooling.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(ComposedPool, IndicesAreThoseOfPyTorch) {
  const Golden golden("more_layers.txt");
  const Tensor x = golden["indices.x"];
  const auto same = [&](const std::string& name, const ValuesAndIndices& found) {
    EXPECT_TRUE(all_close(found.values, golden["indices." + name + ".y"], 0)) << name;
    EXPECT_TRUE(identical(found.indices, golden["indices." + name + ".at"])) << name;
  };
  same("plain", max_pool2d_with_indices(x, 3, {.stride = 2, .padding = 1}));
  same("dilation", max_pool2d_with_indices(
                       x, 2, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true}));
  same("adaptive", adaptive_max_pool2d_with_indices(x, {3, 4}));
  same("line", max_pool1d_with_indices(golden["indices.line.x"], 3, {.stride = 2, .padding = 1}));
  same("line_adaptive", adaptive_max_pool1d_with_indices(golden["indices.line.x"], 4));
  const Tensor volume = golden["indices.volume.x"];
  same("volume",
       max_pool3d_with_indices(volume, {2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}}));
  same("volume_dilation",
       max_pool3d_with_indices(
           volume, 2, {.stride = 2, .padding = 1, .dilation = {1, 2, 3}, .ceil_mode = true}));
  same("volume_adaptive", adaptive_max_pool3d_with_indices(volume, {3, 2, 4}));
  same("volume_unbatched", max_pool3d_with_indices(volume[0], 2));
  nn::MaxPool3d pool({2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}});
  same("volume", pool.with_indices(volume));
  same("line_adaptive", nn::AdaptiveMaxPool1d(4).with_indices(golden["indices.line.x"]));
}

TEST(ComposedPool, AWindowOfMinusInfinityHasItsFirstElement) {
  const Golden golden("more_ops.txt");
  const Tensor x = golden["pool.x"].requires_grad_();
  const auto [y, at] = max_pool2d_with_indices(x, 2, {.stride = 1, .padding = 1, .dilation = 2});
  EXPECT_TRUE(identical(y.detach(), golden["pool.y"]));
  EXPECT_TRUE(identical(at, golden["pool.at"]));
  sum(y).backward();
  EXPECT_TRUE(identical(x.grad(), golden["pool.d"]));
  // A window between the elements holds padding only.
  EXPECT_EQ(max_pool2d(ones({1, 1, 1, 3}), {2, 1}, {.padding = {1, 0}, .dilation = 2}).max().item(),
            -INFINITY);
}

TEST(ComposedPool, UnpoolingPutsElementsBack) {
  const Golden golden("more_layers.txt");
  EXPECT_TRUE(
      identical(nn::MaxUnpool2d(2)(golden["unpool.x"], golden["unpool.at"]), golden["unpool.y"]));
  nn::MaxUnpool2d sized(3, {.stride = 2, .padding = 1, .output_size = Pool2dOptions::Pair{4, 4}});
  EXPECT_TRUE(identical(sized(golden["unpool.sized.x"], golden["unpool.sized.at"]),
                        golden["unpool.sized.y"]));
  nn::MaxUnpool1d line(2);
  EXPECT_TRUE(
      identical(line(golden["unpool1d.x"], golden["unpool1d.at"], 7), golden["unpool1d.y"]));
  const Conv3dOptions::Triple size{4, 5, 4};
  const Tensor x = golden["unpool3d.x"], at = golden["unpool3d.at"];
  EXPECT_TRUE(identical(nn::MaxUnpool3d(2)(x, at, size), golden["unpool3d.y"]));
  EXPECT_TRUE(identical(max_unpool3d(x[0], at[0], 2, {.output_size = size}),
                        golden["unpool3d.unbatched.y"]));
}

TEST(ComposedPool, WindowsOfZerosHaveTheLpGradientZero) {
  const Tensor x = zeros({1, 1, 2, 2}).requires_grad_();
  sum(lp_pool2d(x, 2, 2)).backward();
  EXPECT_TRUE(identical(x.grad(), zeros({1, 1, 2, 2})));
}

TEST(ComposedPool, InfinitePowersAreTheLargestAndTheSmallest) {
  const Tensor x = tensor<float>({1, -5, 3, 4}, {1, 1, 2, 2}).requires_grad_();
  const Tensor y = lp_pool2d(x, INFINITY, 2);
  EXPECT_EQ(y.item<float>(), 5);
  y.sum().backward();
  EXPECT_TRUE(identical(x.grad(), tensor<float>({0, -1, 0, 0}, {1, 1, 2, 2})));
  EXPECT_EQ(lp_pool1d(x.detach().reshape({1, 1, 4}), -INFINITY, 4).item<float>(), 1);
}

TEST(ComposedPool, FoldIsTheTransposeOfUnfold) {
  const Tensor x = ones({3, 4, 4});  // without a batch
  const Tensor columns = unfold(x, 2, {.stride = 2});
  EXPECT_EQ(columns.shape(), (Dims{12, 4}));
  EXPECT_TRUE(identical(fold(columns, 4, 2, {.stride = 2}), x));
}

TEST(ComposedPool, Errors) {
  const Tensor x = zeros({1, 2, 4, 4}), indices = zeros({1, 2, 4, 4}, {.dtype = i64});
  EXPECT_ERROR(avg_pool2d(x, 2, {.dilation = 2}), Error, "only max pooling has a dilation");
  EXPECT_ERROR(avg_pool2d(x, 2, {.divisor_override = 0}), Error, "must not be 0");
  EXPECT_ERROR(max_pool2d(x, 2, {.divisor_override = 2}), Error,
               "only average pooling has a divisor_override");
  EXPECT_ERROR(nn::MaxUnpool2d(2)(x), Error, "MaxUnpool2d: it needs the indices");
  EXPECT_ERROR(max_unpool1d(x[0][0], indices[0][0], 2, {.output_size = 20}), ShapeError,
               "max_unpool1d: output size 20 is not between 6 and 10");
  EXPECT_ERROR(max_pool2d(x, 2, {.dilation = 0}), ShapeError, "dilation must be at least 1");
  EXPECT_ERROR(max_pool2d(x, 3, {.dilation = 3}), ShapeError, "is smaller than the kernel 7x7");
  EXPECT_ERROR(adaptive_max_pool2d(x, 0), ShapeError, "output size 0x0 is empty");
  EXPECT_ERROR(adaptive_max_pool2d(zeros({2, 3}), 1), ShapeError, "is not (N, C, H, W)");
  EXPECT_ERROR(max_pool1d(x, 2), ShapeError, "max_pool1d: input [1, 2, 4, 4] is not (N, C, L)");
  EXPECT_ERROR(avg_pool3d(x[0], 2), ShapeError,
               "avg_pool3d: input [2, 4, 4] is not (N, C, D, H, W)");
  EXPECT_ERROR(lp_pool2d(x, 0, 2), Error, "lp_pool2d: p must not be 0");
  EXPECT_ERROR(max_unpool2d(x, x, 2), DTypeError, "the indices are f32, not i64");
  EXPECT_ERROR(max_unpool2d(x, zeros({2}, {.dtype = i64}), 2), ShapeError, "max_unpool2d: input");
  EXPECT_ERROR(max_unpool2d(x, indices, 2, {.output_size = 10}), ShapeError,
               "max_unpool2d: output size 10 is not between 6 and 10");
  EXPECT_ERROR(max_unpool2d(x, full({1, 2, 4, 4}, 64, {.dtype = i64}), 2), ShapeError, "64");
  EXPECT_ERROR(unfold(x, 5), ShapeError, "unfold: the kernel 5 x 5 does not fit an image of 4 x 4");
  EXPECT_ERROR(unfold(x, 2, {.stride = 0}), ShapeError, "must be at least 1");
  EXPECT_ERROR(unfold(zeros({2, 3}), 2), ShapeError, "unfold: input [2, 3]");
  EXPECT_ERROR(fold(zeros({1, 8, 3}), 4, 2), ShapeError,
               "fold: input [1, 8, 3] is not (N, C 4, 9)");
}

// Windows that overlap: a sum of the copies would overflow, and a mean would share the gradient.
TEST(MaxUnpool, TakesTheLastOfSeveralElements) {
  const Tensor x = tensor<float>({1, 2, 3, 40000, 40000}, {1, 1, 5}).to(f16).requires_grad_(),
               at = tensor<std::int64_t>({1, 1, 4, 3, 3}, {1, 1, 5});
  const Tensor y = max_unpool1d(x, at, 2, {.output_size = 9});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 2, 0, 40000, 3, 0, 0, 0, 0}));
  const Tensor dx = grad({y}, {x}, {.grad_outputs = {arange(9.0).reshape({1, 1, 9}).to(f16)}})[0];
  EXPECT_EQ(dx.to_vector<float>(), (std::vector<float>{1, 1, 4, 3, 3}));
}

}  // namespace
}  // namespace rondo::test
