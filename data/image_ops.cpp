// Windows, flips and colours of one picture. Scaling is in data/resize.cpp.

#include "data/image_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "data/image_checks.h"

namespace rondo::data {
namespace {

using std::uint8_t;

/// y[p] = pixel(x[p]) for each pixel; a pixel is three bytes.
template <class F>
Tensor map_pixels(const Tensor& image, F pixel) {
  Tensor out = Tensor::empty(image.shape(), {.dtype = u8});
  const auto* from = image.data_ptr<uint8_t>();
  auto* to = out.data_ptr<uint8_t>();
  for (std::int64_t i = image.numel(); i > 0; i -= 3, from += 3, to += 3) pixel(from, to);
  return out;
}

/// Perceived brightness (ITU-R 601), in units of 2^-16, rounded.
int grey(const uint8_t* pixel) {
  return (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + 32768) >> 16;
}

/// from + factor (to - from), clipped, without its fraction. In single precision, as in PIL.
uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

void check_factor(double factor, const char* function) {
  require(std::isfinite(factor) && factor >= 0, function, ": a factor of ", factor,
          ", but it must be finite and not negative");
}

/// Hue, saturation and value as bytes.
std::array<uint8_t, 3> to_hsv(const uint8_t* rgb) {
  const int r = rgb[0], g = rgb[1], b = rgb[2];
  const int high = std::max({r, g, b}), low = std::min({r, g, b});
  const auto value = static_cast<uint8_t>(high);
  if (high == low) return {0, 0, value};
  const auto range = static_cast<float>(high - low);
  const float saturation = range / static_cast<float>(high);
  // How far each channel is below the highest one. This gives the position of the hue within its
  // sixth.
  const float rc = static_cast<float>(high - r) / range, gc = static_cast<float>(high - g) / range,
              bc = static_cast<float>(high - b) / range;
  float hue = 0;
  if (r == high) {
    hue = bc - gc;
  } else if (g == high) {
    hue = static_cast<float>(2.0 + rc - bc);
  } else {
    hue = static_cast<float>(4.0 + gc - rc);
  }
  const double turns = static_cast<double>(hue) / 6.0 + 1.0;  // between 5/6 and 11/6
  const auto turn = static_cast<float>(turns < 1.0 ? turns : turns - 1.0);
  const auto byte = [](float share) { return static_cast<uint8_t>(double{share} * 255.0); };
  return {byte(turn), byte(saturation), value};
}

/// The position of a hue byte on the colour wheel: its sixth, and how far into it.
struct HuePlace {
  int sixth;
  float rest;
};
std::array<HuePlace, 256> make_wheel() {
  std::array<HuePlace, 256> wheel{};
  for (int h = 0; h < 256; ++h) {
    const double hue = h * 6.0 / 255.0, sixth = std::floor(hue);
    wheel[static_cast<std::size_t>(h)] = {static_cast<int>(sixth) % 6,
                                          static_cast<float>(hue - sixth)};
  }
  return wheel;
}

void to_rgb(const std::array<HuePlace, 256>& wheel, const std::array<uint8_t, 3>& hsv,
            uint8_t* rgb) {
  const auto [h, s, v] = hsv;
  const auto saturation = static_cast<float>(s / 255.0);
  const auto [sixth, rest] = wheel[h];
  const auto scaled = [v = v](double share) { return static_cast<uint8_t>(v * share + 0.5); };
  const uint8_t p = scaled(1.0 - saturation), q = scaled(1.0 - saturation * rest),
                t = scaled(1.0 - saturation * (1.0 - rest));
  const std::array<std::array<uint8_t, 3>, 6> sixths{
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::copy_n(sixths[static_cast<std::size_t>(sixth)].begin(), 3, rgb);
}

}  // namespace

Tensor crop(const Tensor& image, const Window& window) {
  check_image(image, "crop");
  require(window.height > 0 && window.width > 0, "crop: a window of ", window.height, " x ",
          window.width, ", but both sides must be positive");
  const std::int64_t height = image.size(0), width = image.size(1);
  Tensor out = Tensor::empty({window.height, window.width, 3}, {.dtype = u8});
  auto* to = out.data_ptr<uint8_t>();
  std::memset(to, 0, static_cast<std::size_t>(out.numel()));
  const std::int64_t left = std::clamp<std::int64_t>(window.left, 0, width);
  const std::int64_t right = std::clamp<std::int64_t>(window.left + window.width, left, width);
  for (std::int64_t y = std::max<std::int64_t>(window.top, 0);
       y < std::min(window.top + window.height, height); ++y) {
    std::memcpy(to + ((y - window.top) * window.width + left - window.left) * 3,
                image.data_ptr<uint8_t>() + (y * width + left) * 3,
                static_cast<std::size_t>(3 * (right - left)));
  }
  return out;
}

Tensor center_crop(const Tensor& image, std::int64_t height, std::int64_t width) {
  check_image(image, "center_crop");
  // If the difference is odd, torchvision rounds halves to even when it cuts; when it pads, the
  // larger half goes to the right and bottom.
  const auto place = [](std::int64_t have, std::int64_t want) {
    return have >= want ? std::llrint(static_cast<double>(have - want) / 2) : -((want - have) / 2);
  };
  return crop(image, {.top = place(image.size(0), height),
                      .left = place(image.size(1), width),
                      .height = height,
                      .width = width});
}

Tensor horizontal_flip(const Tensor& image) {
  check_image(image, "horizontal_flip");
  Tensor out = Tensor::empty(image.shape(), {.dtype = u8});
  const std::int64_t width = image.size(1);
  const auto* from = image.data_ptr<uint8_t>();
  auto* to = out.data_ptr<uint8_t>();
  for (std::int64_t y = 0; y < image.size(0); ++y, from += 3 * width) {
    for (std::int64_t x = width - 1; x >= 0; --x, to += 3) std::copy_n(from + 3 * x, 3, to);
  }
  return out;
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  check_image(image, "adjust_brightness");
  check_factor(factor, "adjust_brightness");
  std::array<uint8_t, 256> table{};
  for (int x = 0; x < 256; ++x)
    table[static_cast<std::size_t>(x)] = blend(0, x, static_cast<float>(factor));
  return map_pixels(image, [&](const uint8_t* from, uint8_t* to) {
    for (int c = 0; c < 3; ++c) to[c] = table[from[c]];
  });
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  check_image(image, "adjust_contrast");
  check_factor(factor, "adjust_contrast");
  std::int64_t sum = 0;
  const auto* pixels = image.data_ptr<uint8_t>();
  for (std::int64_t i = 0; i < image.numel(); i += 3) sum += grey(pixels + i);
  const double pixel_count = static_cast<double>(image.numel()) / 3;
  const int mean = static_cast<int>(static_cast<double>(sum) / pixel_count + 0.5);
  std::array<uint8_t, 256> table{};
  for (int x = 0; x < 256; ++x)
    table[static_cast<std::size_t>(x)] = blend(mean, x, static_cast<float>(factor));
  return map_pixels(image, [&](const uint8_t* from, uint8_t* to) {
    for (int c = 0; c < 3; ++c) to[c] = table[from[c]];
  });
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  check_image(image, "adjust_saturation");
  check_factor(factor, "adjust_saturation");
  return map_pixels(image, [factor = static_cast<float>(factor)](const uint8_t* from, uint8_t* to) {
    const int middle = grey(from);
    for (int c = 0; c < 3; ++c) to[c] = blend(middle, from[c], factor);
  });
}

Tensor adjust_hue(const Tensor& image, double factor) {
  check_image(image, "adjust_hue");
  require(factor >= -0.5 && factor <= 0.5, "adjust_hue: a factor of ", factor,
          " is not in [-0.5, 0.5]");
  const int turn = static_cast<int>(factor * 255);  // wraps, as the byte does
  static const std::array<HuePlace, 256> wheel = make_wheel();
  return map_pixels(image, [turn](const uint8_t* from, uint8_t* to) {
    std::array<uint8_t, 3> hsv = to_hsv(from);
    hsv[0] = static_cast<uint8_t>(hsv[0] + turn);
    to_rgb(wheel, hsv, to);
  });
}

}  // namespace rondo::data
