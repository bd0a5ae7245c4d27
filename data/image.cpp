// Reads whole files, and chooses the decoder by the first bytes.

#include "data/image.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "data/files.h"

#ifdef RONDO_HAS_IMAGES
#include "data/codecs.h"
#endif

namespace rondo::data {

#ifdef RONDO_HAS_IMAGES

namespace {

template <std::size_t N>
bool begins_with(std::span<const std::byte> bytes, const std::array<std::uint8_t, N>& magic) {
  return bytes.size() >= N &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
}

constexpr std::array<std::uint8_t, 3> jpeg_magic{0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> png_magic{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

}  // namespace

bool has_image_decoders() { return true; }

Tensor decode_image(std::span<const std::byte> bytes, const std::string& name) {
  if (begins_with(bytes, jpeg_magic)) return decode_jpeg(bytes, name);
  require<IoError>(begins_with(bytes, png_magic), name, ": neither a JPEG nor a PNG file");
  return decode_png(bytes, name);
}

#else

bool has_image_decoders() { return false; }

Tensor decode_image(std::span<const std::byte>, const std::string& name) {
  throw Error(concat(name,
                     ": rondo was built without libjpeg and libpng and cannot decode pictures "
                     "(apt-get install libjpeg-dev libpng-dev, then configure and build again)"));
}

#endif

Tensor read_image(const std::string& file) {
  const std::int64_t size = size_of_file(file);
  require<IoError>(size <= max_image_bytes, file, ": ", size,
                   " bytes, more than the 1 GiB that a picture may have");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  require<IoError>(in.good() && in.gcount() == size, file, ": cannot be read");
  return decode_image(bytes, file);
}

}  // namespace rondo::data
