// Reads one image in binary PPM or PGM, the simplest format that every image tool can write.
#include "predict.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "tensor/printable.h"

namespace examples {

namespace rd = rondo;
using rondo::Tensor;

namespace {

/// Reads the next number of a netpbm header. A comment is from # to the end of the line.
std::int64_t read_number(std::istream& in, const std::string& path) {
  while (in) {
    in >> std::ws;
    if (in.peek() != '#') break;
    std::string comment;
    std::getline(in, comment);
  }
  std::int64_t value = -1;
  in >> value;
  rd::require<rd::IoError>(bool(in) && value > 0 && value <= 65536, path,
                           ": the image header is damaged");
  return value;
}

}  // namespace

Tensor read_ppm(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  rd::require<rd::IoError>(in.good(), path, ": cannot be opened");
  std::string magic(2, ' ');
  in.read(magic.data(), 2);
  rd::require<rd::IoError>(magic == "P6" || magic == "P5", path,
                           ": is not a binary PPM or PGM image (convert it with `convert ",
                           rd::shell_word(path), " image.ppm`)");
  std::int64_t channels = magic == "P6" ? 3 : 1;
  std::int64_t width = read_number(in, path), height = read_number(in, path),
               largest = read_number(in, path);
  rd::require<rd::IoError>(largest <= 255, path, ": has 16 bits per channel, expected 8");
  in.get();  // the single white space that ends the header
  const std::int64_t size = channels * height * width, piece = 1 << 20;
  std::string pixels;
  // Piece by piece: a damaged header may announce more pixels than there is memory for.
  while (static_cast<std::int64_t>(pixels.size()) < size) {
    const std::size_t before = pixels.size();
    pixels.resize(before + static_cast<std::size_t>(std::min(piece, size - std::ssize(pixels))));
    in.read(pixels.data() + before, std::ssize(pixels) - static_cast<std::int64_t>(before));
    const std::int64_t there = static_cast<std::int64_t>(before) + in.gcount();
    rd::require<rd::IoError>(bool(in), path, ": ends after ", there, " of ", size,
                             " bytes of pixel data");
  }
  Tensor image = Tensor::empty({1, channels, height, width}, {.dtype = rd::u8});
  auto* out = image.data_ptr<std::uint8_t>();
  for (std::int64_t p = 0; p < height * width; ++p) {
    for (std::int64_t c = 0; c < channels; ++c) {
      auto value = static_cast<std::uint8_t>(pixels[static_cast<std::size_t>(p * channels + c)]);
      rd::require<rd::IoError>(value <= largest, path, ": has a sample of ", int{value},
                               ", above the maximum of ", largest, " in its header");
      out[c * height * width + p] = static_cast<std::uint8_t>(value * 255 / largest);
    }
  }
  return image;
}

Tensor fit_image(const Tensor& image, std::int64_t channels, std::int64_t height,
                 std::int64_t width) {
  std::int64_t from_channels = image.size(1), from_height = image.size(2),
               from_width = image.size(3);
  Tensor result = Tensor::empty({1, channels, height, width}, {.dtype = rd::u8});
  const auto* in = image.data_ptr<std::uint8_t>();
  auto* out = result.data_ptr<std::uint8_t>();
  /// The part of input pixel i that output pixel o covers, in one dimension.
  auto overlap = [](std::int64_t i, std::int64_t inputs, std::int64_t o, std::int64_t outputs) {
    double size = static_cast<double>(inputs) / static_cast<double>(outputs);
    double begin = static_cast<double>(o) * size, end = begin + size;
    return std::max(
        0.0, std::min(end, static_cast<double>(i + 1)) - std::max(begin, static_cast<double>(i)));
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    std::int64_t first = from_channels == channels ? c : 0;
    std::int64_t last = from_channels == channels ? c : from_channels - 1;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        double sum = 0, weight = 0;
        for (std::int64_t v = y * from_height / height; v * height < (y + 1) * from_height; ++v) {
          for (std::int64_t u = x * from_width / width; u * width < (x + 1) * from_width; ++u) {
            double part = overlap(v, from_height, y, height) * overlap(u, from_width, x, width);
            for (std::int64_t k = first; k <= last; ++k) {
              sum += part * in[(k * from_height + v) * from_width + u];
              weight += part;
            }
          }
        }
        out[(c * height + y) * width + x] = static_cast<std::uint8_t>(std::lround(sum / weight));
      }
    }
  }
  return result;
}

}  // namespace examples
