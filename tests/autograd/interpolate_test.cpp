// Resampled images, against PyTorch in f64 (tests/golden/make_interpolate.py).

#include "autograd/ops/interpolate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

TEST(Interpolate, ResultsAndGradientsAreThoseOfPyTorch) {
  GoldenCases cases;
  const std::map<std::string, Dims> shapes = {{"nearest", {3, 4}},  {"nearest-exact", {3, 4}},
                                              {"bilinear", {3, 4}}, {"bicubic", {4, 5}},
                                              {"linear", {5}},      {"trilinear", {2, 3, 2}}};
  for (const auto& [mode, same] : shapes) {
    const auto first = [n = same.size()](Dims sizes) {
      return Dims(sizes.begin(), sizes.begin() + n);
    };
    const std::map<std::string, Dims> sizes = {
        {"larger", first({7, 5, 6})}, {"smaller", first({2, 2, 1})}, {"same", same}};
    for (const auto& [name, size] : sizes)
      for (const bool align : {false, true})
        if (!align || !mode.starts_with("nearest"))
          cases[concat(mode, '.', name, '.', align ? 1 : 0)] = [=, mode = mode, size = size](X x) {
            return interpolate(x[0], {.size = size, .mode = mode, .align_corners = align});
          };
    cases[mode + ".factor"] = [mode = mode](X x) {
      return interpolate(x[0], {.scale_factor = 1.7, .mode = mode});
    };
  }
  for (const char* mode : {"bilinear", "nearest"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const bool align : {false, true})
        cases[concat("grid.", mode, '.', padding, '.', align ? 1 : 0)] = [=](X x) {
          return grid_sample(x[0], x[1],
                             {.mode = mode, .padding_mode = padding, .align_corners = align});
        };
  expect_cases("interpolate.txt", cases);
}

/// PyTorch's kernels ignore a factor where it leaves the size as it is, and `nearest` in two
/// dimensions also where it doubles the size.
TEST(Interpolate, FactorsOfTheSameSizeAndOfTwiceTheSize) {
  const auto numbers = [](Dims shape, std::vector<double> factors, const char* mode) {
    return interpolate(arange(3.0).reshape(shape), {.scale_factor = factors, .mode = mode})
        .to_vector();
  };
  using Numbers = std::vector<float>;
  const Numbers same{0, 1, 2}, twice{0, 0, 1, 1, 2, 2};
  EXPECT_EQ(numbers({1, 1, 1, 3}, {1, 1.3}, "bilinear"), same);
  EXPECT_EQ(numbers({1, 1, 3}, {1.3}, "linear"), same);
  EXPECT_EQ(numbers({1, 1, 1, 1, 3}, {1, 1, 1.3}, "trilinear"), same);
  EXPECT_EQ(numbers({1, 1, 1, 3}, {1.2, 1.2}, "nearest"), same);
  EXPECT_EQ(numbers({1, 1, 1, 3}, {1, 2.1}, "nearest"), twice);
  EXPECT_EQ(numbers({1, 1, 3}, {1.3}, "nearest"), (Numbers{0, 0, 1}));
  EXPECT_EQ(numbers({1, 1, 3}, {2.1}, "nearest"), (Numbers{0, 0, 0, 1, 1, 2}));
}

TEST(Interpolate, AreaIsTheMeanOfWindows) {
  const Tensor x = arange(24.0).reshape({1, 2, 3, 4});
  EXPECT_TRUE(
      identical(interpolate(x, {.size = {2, 3}, .mode = "area"}), adaptive_avg_pool2d(x, {2, 3})));
  EXPECT_TRUE(identical(interpolate(x[0], {.scale_factor = 0.5, .mode = "area"}),
                        adaptive_avg_pool1d(x[0], 2)));
  EXPECT_ERROR(interpolate(x, {.size = {2, 2}, .mode = "area", .align_corners = true}), Error,
               "align_corners is not for area");
}

TEST(Interpolate, KeepsTheDtype) {
  const Tensor x = rand({1, 1, 4, 4}).to(bf16);
  const Tensor y = interpolate(x, {.size = {8, 8}, .mode = "bilinear"});
  EXPECT_EQ(y.dtype(), bf16);
  // Computed in f32 and rounded once.
  EXPECT_TRUE(
      all_close(y, interpolate(x.to(f32), {.size = {8, 8}, .mode = "bilinear"}).to(bf16), 0));
  EXPECT_EQ(interpolate(x, {.scale_factor = 2}).shape(), (Dims{1, 1, 8, 8}));
  EXPECT_EQ(interpolate(x, {.scale_factor = {0.5, 2}}).shape(), (Dims{1, 1, 2, 8}));
}

TEST(Interpolate, IsNotCast) {
  const Tensor x = rand({1, 1, 4, 4});
  const Tensor y = interpolate(x, {.size = {7, 7}, .mode = "bicubic"});
  const Autocast on(Device::cpu(), bf16);
  EXPECT_TRUE(identical(interpolate(x, {.size = {7, 7}, .mode = "bicubic"}), y));
}

TEST(Interpolate, Errors) {
  const Tensor x = ones({1, 2, 3, 4});
  EXPECT_ERROR(interpolate(x, {.size = {2, 2}, .mode = "cubic"}), Error, "there are nearest,");
  EXPECT_ERROR(interpolate(x, {.size = {2}, .mode = "linear"}), ShapeError,
               "does not fit the mode linear, which needs 3 dimensions");
  EXPECT_ERROR(interpolate(x, {}), Error, "expected either size or scale_factor");
  EXPECT_ERROR(interpolate(x, {.size = {2, 2}, .scale_factor = {2}}), Error, "expected either");
  EXPECT_ERROR(interpolate(x, {.size = {2}}), Error, "1 sizes for 2 dimensions");
  EXPECT_ERROR(interpolate(x, {.size = {2, 0}}), ShapeError, "cannot resize 4 elements to 0");
  EXPECT_ERROR(interpolate(x, {.scale_factor = {-1}}), Error, "scale_factor -1");
  EXPECT_ERROR(interpolate(x, {.size = {2, 2}, .align_corners = true}), Error, "not for nearest");
  EXPECT_ERROR(interpolate(x.to(i64), {.size = {2, 2}}), DTypeError, "interpolate");
  EXPECT_ERROR(grid_sample(x, ones({1, 2, 2, 3})), ShapeError, "expected x (N, C, H, W) and grid");
  EXPECT_ERROR(grid_sample(x, ones({1, 2, 2, 2}), {.mode = "bicubic"}), Error,
               "there are bilinear");
  EXPECT_ERROR(grid_sample(x, ones({1, 2, 2, 2}), {.padding_mode = "wrap"}), Error,
               "there are zeros");
  EXPECT_ERROR(grid_sample(x, ones({1, 2, 2, 2}, {.dtype = f64})), DTypeError, "the grid is f64");
  EXPECT_ERROR(affine_grid(ones({2, 2, 3}), {1, 1, 2, 2}), ShapeError,
               "affine_grid: theta [2, 2, 3] and size [1, 1, 2, 2]");
  EXPECT_ERROR(affine_grid(ones({1, 2, 3}), {1, 2, 2}), ShapeError, "expected (N, 2, 3)");
  EXPECT_ERROR(affine_grid(ones({1, 2, 3}), {1, 1, 0, 2}), ShapeError, "has no elements");
}

// The numbers are PyTorch's.
TEST(Interpolate, KeepsChannelsLast) {
  for (const Dims& sizes : {Dims{2, 3, 5, 4}, {2, 1, 5, 4}, {0, 3, 5, 4}})
    for (const char* mode : {"bilinear", "bicubic"}) {
      const auto results = [&](MemoryFormat format) -> Tensors {
        manual_seed(1);
        Tensor x = randn(sizes).contiguous(format).requires_grad_(true);
        const Tensor y = interpolate(x, {.size = {7, 9}, .mode = mode});
        EXPECT_TRUE(y.is_contiguous(format));
        y.backward(randn(y.shape()).contiguous(format));
        return {y.detach(), x.grad()};
      };
      const Tensors got = results(MemoryFormat::channels_last),
                    want = results(MemoryFormat::contiguous);
      // Sums of the same terms in the same order, with or without fused multiply-adds.
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_TRUE(all_close(got[i], want[i], test::tolerance(f32, 16, 8))) << mode << i;
    }
}

TEST(AffineGrid, AgreesWithPyTorch) {
  const Tensor theta = tensor<double>({1, 0.5, 0.25, -0.5, 2, 0}, {1, 2, 3});
  const Tensor grid = affine_grid(theta, {1, 1, 2, 3});
  EXPECT_EQ(grid.shape(), (Dims{1, 2, 3, 2}));
  EXPECT_TRUE(all_close(grid.flatten(),
                        tensor<double>({-2 / 3.0, -2 / 3.0, 0, -1, 2 / 3.0, -4 / 3.0, -1 / 6.0,
                                        4 / 3.0, 0.5, 1, 7 / 6.0, 2 / 3.0}),
                        0, 1e-15));
  EXPECT_TRUE(all_close(affine_grid(theta, {1, 1, 2, 1}, {.align_corners = true}).flatten(),
                        tensor<double>({-0.25, -2, 0.75, 2}), 0, 1e-15));
  const Tensor x = randn({1, 1, 3, 4}, {.dtype = f64});  // the identity
  EXPECT_TRUE(
      all_close(grid_sample(x, affine_grid(eye(2, 3, {.dtype = f64}).unsqueeze(0), x.shape())), x,
                1e-14, 1e-14));
}

}  // namespace
}  // namespace rondo::test
