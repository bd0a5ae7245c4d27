// Scaling with a triangle filter, in two passes: along rows, then along columns. The weights of an
// output pixel are the same in every row, so they are computed once, as integers.

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/image.h"
#include "data/image_checks.h"
#include "data/image_ops.h"

namespace rondo::data {
namespace {

using std::uint8_t;

constexpr int fraction_bits = 22;  // as in PIL; a byte times 1 fits into 31 bits

/// The input pixels and weights of each output pixel, along one direction.
struct Taps {
  struct Run {
    std::int64_t first, count;
  };
  std::vector<Run> runs;              // one per output pixel
  std::vector<std::int32_t> weights;  // `most` per output pixel, `count` of them used
  std::int64_t most = 0;

  const std::int32_t* of(std::int64_t out) const { return weights.data() + out * most; }
};

/// The centre of output pixel o is at (o + 1/2) scale in the input. Weights fall linearly to 0 at a
/// distance of one input pixel, or of one output pixel if those are larger. They add up to 1.
Taps make_taps(std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.most = 2 * static_cast<std::int64_t>(std::ceil(reach)) + 1;
  taps.runs.resize(static_cast<std::size_t>(out));
  taps.weights.resize(static_cast<std::size_t>(out * taps.most));
  std::vector<double> shares(static_cast<std::size_t>(taps.most));
  for (std::int64_t o = 0; o < out; ++o) {
    const double center = (static_cast<double>(o) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + reach + 0.5), in);
    double sum = 0;
    for (std::int64_t i = first; i < end; ++i) {
      const double distance = std::abs((static_cast<double>(i) - center + 0.5) / reach);
      shares[static_cast<std::size_t>(i - first)] = std::max(1.0 - distance, 0.0);
      sum += shares[static_cast<std::size_t>(i - first)];
    }
    taps.runs[static_cast<std::size_t>(o)] = {first, end - first};
    for (std::int64_t i = 0; i < end - first; ++i) {
      const double share = sum == 0 ? 0 : shares[static_cast<std::size_t>(i)] / sum;
      taps.weights[static_cast<std::size_t>(o * taps.most + i)] =
          static_cast<std::int32_t>(std::lround(share * (1 << fraction_bits)));
    }
  }
  return taps;
}

/// Rounds a sum of weighted bytes to a byte.
uint8_t to_byte(std::int32_t sum) {
  return static_cast<uint8_t>(
      std::clamp((sum + (1 << (fraction_bits - 1))) >> fraction_bits, 0, 255));
}

/// Scales one row of pixels.
void scale_row(const uint8_t* from, const Taps& taps, uint8_t* to) {
  for (std::int64_t o = 0; o < std::ssize(taps.runs); ++o, to += 3) {
    const auto [first, count] = taps.runs[static_cast<std::size_t>(o)];
    const std::int32_t* weights = taps.of(o);
    const uint8_t* pixel = from + 3 * first;
    std::int32_t red = 0, green = 0, blue = 0;
    for (std::int64_t i = 0; i < count; ++i, pixel += 3) {
      red += weights[i] * pixel[0];
      green += weights[i] * pixel[1];
      blue += weights[i] * pixel[2];
    }
    to[0] = to_byte(red);
    to[1] = to_byte(green);
    to[2] = to_byte(blue);
  }
}

/// The sum of `count` weighted rows of `bytes` bytes each, `pitch` apart. `sums` must hold one row.
void scale_columns(const uint8_t* from, std::int64_t pitch, std::int64_t count,
                   const std::int32_t* weights, std::int64_t bytes, std::int32_t* sums,
                   uint8_t* to) {
  std::fill_n(sums, bytes, 0);
  for (std::int64_t i = 0; i < count; ++i, from += pitch) {
    for (std::int64_t x = 0; x < bytes; ++x) sums[x] += weights[i] * from[x];
  }
  for (std::int64_t x = 0; x < bytes; ++x) to[x] = to_byte(sums[x]);
}

}  // namespace

Tensor resize(const Tensor& image, const Window& window, std::int64_t height, std::int64_t width) {
  check_image(image, "resize");
  require<ShapeError>(height > 0 && width > 0 && height <= max_image_side &&
                          width <= max_image_side && height * width <= max_image_pixels,
                      "resize: from ", image.shape(), " to ", height, " x ", width,
                      " pixels, but there may be 1 to ", max_image_pixels, " of them, ",
                      max_image_side, " a side");
  require<ShapeError>(window.top >= 0 && window.left >= 0 && window.height > 0 &&
                          window.width > 0 && window.top + window.height <= image.size(0) &&
                          window.left + window.width <= image.size(1),
                      "resize: a window of ", window.height, " x ", window.width, " at ",
                      window.top, ", ", window.left, " in a picture ", image.shape());
  if (window.height == height && window.width == width) return crop(image, window);
  const std::int64_t in_pitch = 3 * image.size(1), pitch = 3 * width;
  const uint8_t* from = image.data_ptr<uint8_t>() + window.top * in_pitch + 3 * window.left;
  // If the row length does not change, the rows are not copied.
  Tensor narrow;
  std::int64_t narrow_pitch = in_pitch;
  if (window.width != width) {
    const Taps taps = make_taps(window.width, width);
    narrow = Tensor::empty({window.height, width, 3}, {.dtype = u8});
    auto* to = narrow.data_ptr<uint8_t>();
    for (std::int64_t y = 0; y < window.height; ++y)
      scale_row(from + y * in_pitch, taps, to + y * pitch);
    from = to;
    narrow_pitch = pitch;
  }
  if (window.height == height) return narrow;
  const Taps taps = make_taps(window.height, height);
  Tensor out = Tensor::empty({height, width, 3}, {.dtype = u8});
  std::vector<std::int32_t> sums(static_cast<std::size_t>(pitch));
  for (std::int64_t y = 0; y < height; ++y) {
    const auto [first, count] = taps.runs[static_cast<std::size_t>(y)];
    scale_columns(from + first * narrow_pitch, narrow_pitch, count, taps.of(y), pitch, sums.data(),
                  out.data_ptr<uint8_t>() + y * pitch);
  }
  return out;
}

Tensor resize(const Tensor& image, std::int64_t height, std::int64_t width) {
  check_image(image, "resize");
  return resize(image, {.height = image.size(0), .width = image.size(1)}, height, width);
}

Tensor resize_shorter(const Tensor& image, std::int64_t shorter) {
  check_image(image, "resize_shorter");
  require(shorter > 0, "resize_shorter: to ", shorter, ", but the side must be positive");
  const std::int64_t height = image.size(0), width = image.size(1);
  const auto longer = [&](std::int64_t other, std::int64_t side) {
    return static_cast<std::int64_t>(static_cast<double>(shorter * other) /
                                     static_cast<double>(side));
  };
  if (height <= width) return resize(image, shorter, longer(width, height));
  return resize(image, longer(height, width), shorter);
}

}  // namespace rondo::data
