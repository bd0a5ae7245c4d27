// The format: W3C, "Portable Network Graphics (PNG) Specification", www.w3.org/TR/png-3. A
// signature, then chunks: a length, four letters, the bytes, and the CRC of letters and bytes.

#include "io/encode_png.h"

#include <zlib.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"

namespace rondo::io {
namespace {

/// Four bytes, most significant first.
std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string chunk(std::string_view letters, const std::string& bytes) {
  const std::string checked = std::string(letters) + bytes;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(bytes.size())) + checked +
         big_endian(static_cast<std::uint32_t>(crc));
}

/// The rows of pixels, each after a byte with the number of its filter: 0, none.
std::string rows_of(const Tensor& image) {
  const std::int64_t channels = image.size(0), height = image.size(1), width = image.size(2);
  const auto* pixels = image.data_ptr<std::uint8_t>();
  std::string rows;
  rows.reserve(static_cast<std::size_t>(height * (1 + width * channels)));
  for (std::int64_t y = 0; y < height; ++y) {
    rows += '\0';
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c)
        rows += static_cast<char>(pixels[(c * height + y) * width + x]);
  }
  return rows;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_COMPRESSION);
  require(status == Z_OK, "encode_png: zlib failed with status ", status);
  packed.resize(size);
  return packed;
}

}  // namespace

std::string encode_png(const Tensor& image) {
  require<DTypeError>(image.dtype() == u8, "encode_png: the image is ", image.dtype(),
                      ", but must be u8");
  require<DeviceError>(image.device().is_cpu(), "encode_png: the image is on ", image.device());
  require<ShapeError>(image.dim() == 3 && (image.size(0) == 1 || image.size(0) == 3) &&
                          image.size(1) > 0 && image.size(2) > 0 && image.size(1) <= 1 << 20 &&
                          image.size(2) <= 1 << 20 && image.numel() <= 1 << 30,
                      "encode_png: the image is ", image.shape(),
                      ", but must be (1, H, W) or (3, H, W), with at most 2^30 bytes");
  require<ShapeError>(image.is_contiguous(), "encode_png: the image of shape ", image.shape(),
                      " is not contiguous");
  const char colour = image.size(0) == 1 ? 0 : 2;  // grey, RGB
  const std::string header =
      big_endian(static_cast<std::uint32_t>(image.size(2))) +
      big_endian(static_cast<std::uint32_t>(image.size(1))) +
      std::string{8, colour, 0, 0, 0};  // bits per channel; deflate, filters, no interlace
  return "\x89PNG\r\n\x1A\n" + chunk("IHDR", header) + chunk("IDAT", deflated(rows_of(image))) +
         chunk("IEND", "");
}

void write_png(const Tensor& image, const std::string& path) {
  const std::string bytes = encode_png(image);
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace rondo::io
