// Decoded files against PIL's pixels (tests/golden/make_images.py), bit for bit: both use
// libjpeg-turbo. Also damaged and malicious files.

#include "data/image.h"

#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::write_file;

Tensor decode(const std::string& bytes, const std::string& name = "memory") {
  return decode_image(std::as_bytes(std::span(bytes)), name);
}

std::string file(const std::string& name) { return test::golden_bytes("images_hex.txt", name); }

class Image : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_image_decoders()) GTEST_SKIP() << "built without libjpeg and libpng";
  }
};

TEST_F(Image, EveryKindOfFileGivesPilsPixels) {
  const test::Golden golden("images.txt");
  const auto files = test::golden_texts("images_hex.txt");
  int compared = 0;
  for (const auto& [name, hex] : files) {
    if (name.starts_with("other_")) continue;
    ++compared;
    EXPECT_TRUE(test::identical(decode(file(name)), golden["file." + name])) << name;
  }
  EXPECT_EQ(compared, 22);
}

TEST_F(Image, TheNameOfAFileDoesNotSayWhatItIs) {
  const test::TemporaryFolder folder;
  write_file(folder / "a.jpg", file("png_rgb"));
  EXPECT_TRUE(
      test::identical(read_image(folder / "a.jpg"), test::Golden("images.txt")["file.png_rgb"]));
}

// PIL 13 returns 255 for all of these.
TEST_F(Image, SixteenBitGreyKeepsItsUpperHalf) {
  EXPECT_EQ(decode(file("other_grey16")).to_vector<int>(),
            (std::vector<int>{0, 0, 0, 1, 1, 1, 156, 156, 156, 255, 255, 255}));
}

TEST_F(Image, AFileThatEndsEarlyIsNamed) {
  for (const auto& [name, hex] : test::golden_texts("images_hex.txt")) {
    const std::string whole = file(name);
    for (std::size_t keep = 0; keep < whole.size(); keep += 1 + keep / 16) {
      EXPECT_ERROR(decode(whole.substr(0, keep), "cats/7.png"), IoError, "cats/7.png: ")
          << name << " cut to " << keep;
    }
    EXPECT_ERROR(decode(whole.substr(0, whole.size() - 1)), IoError, "memory: not a whole ")
        << name;
  }
}

TEST_F(Image, LostPixelsAreAnError) {
  std::string png = file("png_rgb");
  png[png.find("IDAT") - 5] ^= 1;  // the checksum of the previous chunk
  EXPECT_ERROR(decode(png), IoError, "CRC");
  std::string jpeg = file("jpeg_444");
  jpeg.replace(jpeg.size() - 200, 2, "\xff\xd9");  // the end marker, in the middle of the pixels
  EXPECT_ERROR(decode(jpeg), IoError, "not a whole JPEG file");
}

TEST_F(Image, OddButHarmlessThingsAreLetThrough) {
  std::string jpeg = file("jpeg_444");
  const Tensor wanted = decode(jpeg);
  // "Extraneous bytes before marker", as in some of ImageNet's files.
  jpeg.insert(jpeg.find("\xff\xdb"), "junk");
  EXPECT_TRUE(test::identical(decode(jpeg), wanted));
}

/// A header that declares this size, followed by the data of a small image.
std::string png_of(const std::string& sizes) {
  std::string png = file("png_rgb");
  png.replace(16, 8, sizes);
  // The checksum of the header includes the sizes.
  std::uint32_t crc = 0xFFFFFFFF;
  for (std::size_t i = 12; i < 29; ++i) {
    crc ^= static_cast<std::uint8_t>(png[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
  }
  crc = ~crc;
  for (std::size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  return png;
}

TEST_F(Image, DeclaredSizesAreCheckedBeforeAnythingIsAllocated) {
  EXPECT_ERROR(decode(png_of(std::string("\0\1\0\0\0\1\0\0", 8))), IoError, "65536 x 65536 pixels");
  EXPECT_ERROR(decode(png_of(std::string("\0\0\0\1\0\4\0\1", 8))), IoError, "memory: ");
  EXPECT_ERROR(decode(png_of(std::string("\0\0\0\0\0\0\0\1", 8))), IoError, "memory: ");
  EXPECT_ERROR(decode(png_of(std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8))), IoError,
               "memory: ");
  // An allowed size, but deflate cannot compress it into so few bytes. Refused before 300 MB are
  // allocated.
  EXPECT_ERROR(decode(png_of(std::string("\0\0\x27\x10\0\0\x27\x10", 8))), IoError,
               "bytes cannot hold 10000 x 10000 pixels");
  std::string jpeg = file("jpeg_444");
  const std::size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // 65500 x 65500, the maximum of libjpeg
  EXPECT_ERROR(decode(jpeg), IoError, "memory: a picture of 65500 x 65500 pixels");
}

TEST_F(Image, AColourThatThePaletteLacksIsAnError) {
  EXPECT_ERROR(decode(file("other_palette"), "p.png"), IoError,
               "p.png: colour 1 of a palette of 1");
}

TEST_F(Image, WhatIsNeitherIsNamed) {
  EXPECT_ERROR(decode("GIF89a", "a.jpg"), IoError, "a.jpg: neither a JPEG nor a PNG file");
  EXPECT_ERROR(decode("", "a.jpg"), IoError, "a.jpg: neither");
  const test::TemporaryFolder folder;
  EXPECT_ERROR(read_image(folder / "none.png"), IoError, "none.png: no such file");
  EXPECT_ERROR(read_image(folder.path()), IoError, "not a file");
  write_file(folder / "empty.png", "");
  EXPECT_ERROR(read_image(folder / "empty.png"), IoError, "empty.png: neither");
}

TEST_F(Image, AProgressiveFileWithTooManyScansIsRefused) {
  std::string jpeg = file("jpeg_progressive");
  // Repeats the first scan many times, which costs time but hardly any bytes.
  const std::size_t scan = jpeg.find("\xff\xda");
  const std::string first = jpeg.substr(scan, jpeg.find("\xff\xc4", scan) - scan);
  for (int i = 0; i < 300; ++i) jpeg.insert(scan, first);
  EXPECT_ERROR(decode(jpeg), IoError, "More than 200 scans");
}

TEST(ImageWithoutDecoders, SaysHowToGetThem) {
  if (has_image_decoders()) GTEST_SKIP() << "built with libjpeg and libpng";
  EXPECT_ERROR(decode("\xff\xd8\xff", "a.jpg"), Error, "apt-get install libjpeg-dev libpng-dev");
}

}  // namespace
}  // namespace rondo::data
