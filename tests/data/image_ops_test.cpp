// Every function against torchvision's on PIL images (tests/golden/make_images.py), bit for bit, at
// sizes at which all versions of PIL scale along rows first (docs/decisions.md, "Pictures"). A
// single different rounding would be visible in some of these pixels.

#include "data/image_ops.h"

#include <limits>

#include "data/image.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::identical;

const test::Golden& golden() {
  static const test::Golden golden("images.txt");
  return golden;
}

Tensor picture() { return golden()["picture"]; }

TEST(Resize, GivesPilsBits) {
  constexpr std::int64_t sizes[][2] = {{7, 9}, {23, 12}, {11, 31}, {40, 50},
                                       {1, 1}, {23, 31}, {60, 5}};
  for (const auto& [height, width] : sizes) {
    EXPECT_TRUE(identical(resize(picture(), height, width),
                          golden()[concat("resize.", height, "x", width)]))
        << height << " x " << width;
  }
}

TEST(Resize, TheShorterSide) {
  for (const std::int64_t shorter : {8, 16, 23, 37}) {
    EXPECT_TRUE(identical(resize_shorter(picture(), shorter), golden()[concat("resize.", shorter)]))
        << shorter;
  }
  // As PIL rotates it: the last column becomes the first row.
  const Tensor from = picture(), turned = Tensor::empty({31, 23, 3}, {.dtype = u8});
  for (std::int64_t y = 0; y < 31; ++y) {
    for (std::int64_t x = 0; x < 23; ++x) {
      std::copy_n(from.data_ptr<std::uint8_t>() + (x * 31 + 30 - y) * 3, 3,
                  turned.data_ptr<std::uint8_t>() + (y * 23 + x) * 3);
    }
  }
  EXPECT_TRUE(identical(resize_shorter(turned, 10), golden()["resize.tall"]));
}

TEST(Resize, OfAWindow) {
  EXPECT_TRUE(identical(resize(picture(), {3, 5, 17, 20}, 12, 14), golden()["resized_crop"]));
  EXPECT_TRUE(
      identical(resize(picture(), {3, 5, 17, 20}, 17, 20), crop(picture(), {3, 5, 17, 20})));
}

TEST(Crop, InTheMiddle) {
  constexpr std::int64_t sizes[][2] = {{10, 10}, {11, 14}, {30, 20}, {20, 40}, {33, 36}};
  for (const auto& [height, width] : sizes) {
    EXPECT_TRUE(identical(center_crop(picture(), height, width),
                          golden()[concat("center_crop.", height, "x", width)]))
        << height << " x " << width;
  }
}

TEST(Crop, BeyondTheEdgesIsBlack) {
  const Tensor one = tensor<std::uint8_t>({1, 2, 3}, {1, 1, 3});
  EXPECT_EQ(crop(one, {-1, 0, 2, 2}).to_vector<int>(),
            (std::vector<int>{0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(crop(one, {5, 5, 1, 1}).to_vector<int>(), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(crop(one, {0, -3, 1, 1}).to_vector<int>(), (std::vector<int>{0, 0, 0}));
}

TEST(Flip, ChangesSides) { EXPECT_TRUE(identical(horizontal_flip(picture()), golden()["hflip"])); }

TEST(Colour, BrightnessContrastSaturation) {
  for (const int factor : {0, 40, 100, 137, 250}) {
    const double f = factor / 100.0;
    EXPECT_TRUE(
        identical(adjust_brightness(picture(), f), golden()[concat("brightness.", factor)]));
    EXPECT_TRUE(identical(adjust_contrast(picture(), f), golden()[concat("contrast.", factor)]));
    EXPECT_TRUE(
        identical(adjust_saturation(picture(), f), golden()[concat("saturation.", factor)]));
  }
}

TEST(Colour, Hue) {
  for (const int factor : {-50, -10, 0, 5, 33, 50}) {
    EXPECT_TRUE(identical(adjust_hue(picture(), factor / 100.0), golden()[concat("hue.", factor)]))
        << factor;
  }
}

TEST(ImageOps, RefuseWhatIsNoPicture) {
  EXPECT_ERROR(resize(zeros({4, 4, 3}), 2, 2), DTypeError, "resize: a picture of f32");
  EXPECT_ERROR(horizontal_flip(zeros({3, 4, 4}, {.dtype = u8})), ShapeError,
               "horizontal_flip: a picture [3, 4, 4]");
  EXPECT_ERROR(adjust_hue(zeros({0, 4, 3}, {.dtype = u8}), 0), ShapeError, "adjust_hue");
  const Tensor turned = zeros({3, 4, 4}, {.dtype = u8}).as_view({4, 4, 3}, {4, 1, 16}, 0);
  EXPECT_ERROR(center_crop(turned, 2, 2), ShapeError, "center_crop");
}

TEST(ImageOps, RefuseImpossibleArguments) {
  EXPECT_ERROR(resize(picture(), 0, 3), ShapeError, "to 0 x 3");
  EXPECT_ERROR(resize(picture(), {20, 0, 4, 4}, 2, 2), ShapeError, "a window of 4 x 4 at 20, 0");
  EXPECT_ERROR(resize_shorter(picture(), 0), Error, "resize_shorter: to 0");
  EXPECT_ERROR(crop(picture(), {0, 0, 0, 1}), Error, "crop: a window of 0 x 1");
  EXPECT_ERROR(adjust_brightness(picture(), -1), Error, "adjust_brightness: a factor of -1");
  EXPECT_ERROR(adjust_contrast(picture(), std::numeric_limits<double>::infinity()), Error,
               "adjust_contrast");
  EXPECT_ERROR(adjust_saturation(picture(), -0.1), Error, "adjust_saturation");
  EXPECT_ERROR(adjust_hue(picture(), 0.6), Error, "0.6 is not in [-0.5, 0.5]");
}

// A file with one line of pixels is small, but scaling its shorter side to 256 would take
// gigabytes.
TEST(ImageOps, RefuseToScaleBeyondAllBounds) {
  const Tensor line = zeros({1, max_image_side, 3}, {.dtype = u8});
  EXPECT_ERROR(resize_shorter(line, 256), ShapeError, "there may be 1 to 178956970");
}

}  // namespace
}  // namespace rondo::data
