#pragma once
// What is done to single pictures, u8 (H, W, 3), one function for each of torchvision's
// (torchvision.transforms.functional, on PIL images): the same formulas, rounded where PIL rounds.
//
// None of these starts threads: they run in the loader's workers, one picture each.
//
// Read next: data/image_pipeline.h, which strings them together and draws their arguments.

#include <cstdint>

#include "tensor/tensor.h"

namespace rondo::data {

/// Part of a picture: rows [top, top + height), columns [left, left + width).
struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Window&) const = default;
};

/// Every function here throws DTypeError or ShapeError for anything but u8 (H, W, 3), contiguous,
/// with pixels, and Error for an argument out of its range. A picture to be scaled beyond what
/// data/image.h allows in files (a line of pixels whose shorter side is to be 256) is a ShapeError.

/// The window of `image` scaled to height × width (PIL's resize with BILINEAR, which is
/// torchvision's with antialias; resized_crop): each output pixel is a mean of the input under a
/// triangle two input pixels wide, or two output pixels where these are larger. PIL's bits: rows
/// first, then columns, weights in units of 2^-22, both passes rounded to bytes.
Tensor resize(const Tensor& image, const Window& window, std::int64_t height, std::int64_t width);
/// The whole of it.
Tensor resize(const Tensor& image, std::int64_t height, std::int64_t width);
/// The shorter side becomes `shorter` and the longer one follows, rounded down
/// (torchvision's Resize(int)).
Tensor resize_shorter(const Tensor& image, std::int64_t shorter);

/// A copy of the window (torchvision's crop). It may reach over the edges; there it is black.
Tensor crop(const Tensor& image, const Window& window);
/// The window in the middle, rounded as torchvision does; black around a picture that is smaller.
Tensor center_crop(const Tensor& image, std::int64_t height, std::int64_t width);
/// Left and right change sides (torchvision's hflip).
Tensor horizontal_flip(const Tensor& image);

/// Blends with black: x factor. 0 is black, 1 changes nothing. These three clip to [0, 255] and cut
/// off fractions; factors are finite and not negative.
Tensor adjust_brightness(const Tensor& image, double factor);
/// Blends with the mean of the picture's grey, rounded: m + factor (x - m).
Tensor adjust_contrast(const Tensor& image, double factor);
/// Blends with the picture's own grey, g = 0.299 r + 0.587 g + 0.114 b: g + factor (x - g).
Tensor adjust_saturation(const Tensor& image, double factor);
/// Turns the colour wheel by `factor` of a full turn, in [-0.5, 0.5]; hue, saturation and value are
/// bytes in between, as they are for PIL (torchvision computes the hue of tensors in floats, and
/// differs by a few units).
Tensor adjust_hue(const Tensor& image, double factor);

}  // namespace rondo::data
