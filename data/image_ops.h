#pragma once
// Functions on single pictures, u8 (H, W, 3). Each corresponds to one of torchvision's
// (torchvision.transforms.functional, on PIL images): the same formulas, rounded where PIL rounds.
//
// None of these functions starts threads: they run in the loader's workers, one picture in each.
//
// Read next: data/image_pipeline.h, which combines them and draws their arguments.

#include <cstdint>

#include "tensor/tensor.h"

namespace rondo::data {

/// Part of a picture: rows [top, top + height), columns [left, left + width).
struct Window {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Window&) const = default;
};

/// Every function here throws DTypeError or ShapeError unless the picture is u8 (H, W, 3),
/// contiguous and non-empty, and Error for an argument out of range. Throws ShapeError if the
/// scaled picture would exceed the limits of data/image.h (for example, a line of pixels whose
/// shorter side shall be 256).

/// The window of `image` scaled to height × width (PIL's resize with BILINEAR, torchvision's resize
/// with antialias; resized_crop). Each output pixel is a mean of the input, weighted by a triangle
/// two input pixels wide, or two output pixels wide if those are larger. It computes as PIL does:
/// rows first, then columns, weights in units of 2^-22, both passes rounded to bytes.
Tensor resize(const Tensor& image, const Window& window, std::int64_t height, std::int64_t width);
/// The same for the whole picture.
Tensor resize(const Tensor& image, std::int64_t height, std::int64_t width);
/// Scales the shorter side to `shorter` and the longer side in proportion, rounded down
/// (torchvision's Resize(int)).
Tensor resize_shorter(const Tensor& image, std::int64_t shorter);

/// A copy of the window (torchvision's crop). Parts of the window outside the picture are black.
Tensor crop(const Tensor& image, const Window& window);
/// The window in the middle, rounded as torchvision does. A smaller picture gets a black border.
Tensor center_crop(const Tensor& image, std::int64_t height, std::int64_t width);
/// Mirrors left and right (torchvision's hflip).
Tensor horizontal_flip(const Tensor& image);

/// Blends with black: x factor. 0 gives black, 1 changes nothing. This function and the next two
/// clip to [0, 255] and drop fractions. Factors must be finite and not negative.
Tensor adjust_brightness(const Tensor& image, double factor);
/// Blends with m, the rounded mean of the picture's grey values: m + factor (x - m).
Tensor adjust_contrast(const Tensor& image, double factor);
/// Blends with the picture's own grey, g = 0.299 r + 0.587 g + 0.114 b: g + factor (x - g).
Tensor adjust_saturation(const Tensor& image, double factor);
/// Rotates the hue by `factor` of a full turn, in [-0.5, 0.5]. Intermediate hue, saturation and
/// value are bytes, as in PIL (torchvision computes the hue of tensors in floats, which differs by
/// a few units).
Tensor adjust_hue(const Tensor& image, double factor);

}  // namespace rondo::data
