// Gives mutilated JPEG and PNG files to the decoders. Whatever the bytes, the result is an image of
// the declared size or an IoError.

#include <gtest/gtest.h>

#include <span>

#include "data/image.h"
#include "support/golden.h"
#include "support/mutilate.h"
#include "support/png_checksums.h"

namespace rondo::data {
namespace {

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
      if (name.find("png") != std::string::npos && i % 2 == 0) bytes = test::with_checksums(bytes);
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
  EXPECT_GT(refused, pictures);  // most changes make the file invalid
  EXPECT_GT(pictures, 0);
}

}  // namespace
}  // namespace rondo::data
