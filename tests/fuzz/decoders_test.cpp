// Throws mutilated JPEG and PNG files at the decoders: whatever the bytes, a picture of their
// declared size or an IoError comes out.

#include <gtest/gtest.h>

#include <span>

#include "data/image.h"
#include "support/golden.h"
#include "support/mutilate.h"

namespace rondo::data {
namespace {

/// The checksums of all chunks as they should be, so that libpng looks behind them.
std::string with_checksums(std::string png) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<std::uint8_t>(png[i])}; };
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const std::size_t length =
        byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (length > png.size() - at - 12) break;
    std::uint32_t crc = 0xFFFFFFFF;
    for (std::size_t i = at + 4; i < at + 8 + length; ++i) {
      crc ^= byte(i);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
    }
    for (std::size_t i = 0; i < 4; ++i)
      png[at + 8 + length + i] = static_cast<char>(~crc >> (24 - 8 * i));
    at += 12 + length;
  }
  return png;
}

TEST(Fuzz, JpegAndPngFiles) {
  if (!has_image_decoders()) GTEST_SKIP() << "built without libjpeg and libpng";
  const std::vector<std::string> words{"\xff\xd8",
                                       "\xff\xd9",
                                       "\xff\xda",
                                       "\xff\xc2",
                                       "\xff\xd0",
                                       "\xff\xdd",
                                       std::string("\xff\xc4\x00\x1f", 4),
                                       "IDAT",
                                       "PLTE",
                                       "tRNS",
                                       "IEND",
                                       "iCCP",
                                       std::string("\0\0\x10\0", 4),
                                       std::string("\x7f\xff\xff\xff", 4)};
  const long iterations = test::fuzz_iterations(1000);
  long refused = 0, pictures = 0;
  for (const auto& [name, hex] : test::golden_texts("images_hex.txt")) {
    const std::string whole = test::golden_bytes("images_hex.txt", name);
    test::Dice dice;
    for (long i = 0; i < iterations; ++i) {
      std::string bytes = test::mutilate(whole, dice, words);
      if (name.find("png") != std::string::npos && i % 2 == 0) bytes = with_checksums(bytes);
      try {
        const Tensor image = decode_image(std::as_bytes(std::span(bytes)), name);
        EXPECT_GT(image.numel(), 0);
        EXPECT_LE(image.numel(), 3 * max_image_pixels);
        ++pictures;
      } catch (const IoError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(name + ": "));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, pictures);  // whoever changes a coefficient changes a picture
  EXPECT_GT(pictures, 0);
}

}  // namespace
}  // namespace rondo::data
