// Small MAT-files, written here byte by byte.

#include "data/svhn.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cstring>

#include "support/errors.h"
#include "support/files.h"
#include "support/mutilate.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::message_of, test::TemporaryFolder, test::write_file;
using ::testing::HasSubstr;

std::string mat_word(std::uint32_t value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

/// With padding to a multiple of eight bytes; in the short form if `is_small`.
std::string mat_element(std::uint32_t type, const std::string& data, bool is_small = false) {
  const auto size = static_cast<std::uint32_t>(data.size());
  std::string bytes = is_small ? mat_word(type | size << 16) : mat_word(type) + mat_word(size);
  bytes += data;
  bytes.resize((bytes.size() + 7) / 8 * 8);
  return bytes;
}

std::string mat_array(const std::string& name, const std::vector<std::uint32_t>& sizes,
                      std::uint32_t type, const std::string& data, bool is_compressed) {
  std::string dims;
  for (const std::uint32_t size : sizes) dims += mat_word(size);
  const std::string whole =
      mat_element(14, mat_element(6, mat_word(9) + mat_word(0)) + mat_element(5, dims) +
                          mat_element(1, name, /*is_small=*/true) + mat_element(type, data));
  if (!is_compressed) return whole;
  std::string packed(compressBound(whole.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(whole.data()), whole.size());
  packed.resize(size);
  return mat_word(15) + mat_word(static_cast<std::uint32_t>(size)) + packed;
}

std::string mat_header() {
  std::string header(128, ' ');
  header.replace(124, 4, std::string("\x00\x01IM", 4));
  return header;
}

char svhn_pixel(std::size_t i, std::size_t c, std::size_t row, std::size_t column) {
  return static_cast<char>((i * 31 + c * 101 + row * 7 + column * 3) % 251);
}

std::string svhn_pixels(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t column = 0; column < 32; ++column)
        for (std::size_t row = 0; row < 32; ++row) bytes += svhn_pixel(i, c, row, column);
  return bytes;
}

TEST(Svhn, ReadsColumnsAndLabels) {
  const std::string bytes = "\x01\x0a\x09";
  std::string doubles;
  for (const double label : {1.0, 10.0, 9.0})
    doubles.append(reinterpret_cast<const char*>(&label), sizeof label);
  for (const bool is_compressed : {false, true}) {
    for (const bool as_doubles : {false, true}) {
      const TemporaryFolder scratch;
      write_file(scratch / "train_32x32.mat",
                 mat_header() + mat_array("X", {32, 32, 3, 3}, 2, svhn_pixels(3), is_compressed) +
                     mat_array("y", {3, 1}, as_doubles ? 9 : 2, as_doubles ? doubles : bytes,
                               is_compressed));
      const auto set = load_svhn(scratch.path(), Split::train);
      EXPECT_EQ(set->images().shape(), (Dims{3, 3, 32, 32}));
      EXPECT_EQ(set->labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 9}));
      const auto* pixel = set->images().data_ptr<std::uint8_t>();
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t c = 0; c < 3; ++c)
          for (std::size_t row = 0; row < 32; ++row)
            for (std::size_t column = 0; column < 32; ++column)
              ASSERT_EQ(*pixel++, static_cast<std::uint8_t>(svhn_pixel(i, c, row, column)));
      EXPECT_EQ(load_svhn(scratch.path(), Split::train, {.limit = 2})->size(), 2);
    }
  }
}

TEST(Svhn, BadFiles) {
  const TemporaryFolder scratch;
  const std::string pixels = mat_array("X", {32, 32, 3, 1}, 2, svhn_pixels(1), true);
  const auto message = [&](const std::string& bytes, SvhnOptions options = {}) {
    write_file(scratch / "test_32x32.mat", bytes);
    return message_of<IoError>([&] { load_svhn(scratch.path(), Split::test, options); });
  };
  EXPECT_THAT(message_of<IoError>([&] { load_svhn(scratch.path(), Split::train); }),
              HasSubstr("train_32x32.mat: no such file"));
  EXPECT_THAT(message("MATLAB"), HasSubstr("is not a little-endian MAT-file of level 5"));
  EXPECT_THAT(message(mat_header() + pixels), HasSubstr("has no array y"));
  EXPECT_THAT(message(mat_header() + pixels.substr(0, 300)), HasSubstr("is cut short"));
  EXPECT_THAT(message(mat_header() + pixels + mat_array("y", {1, 1}, 2, "\x0b", false)),
              HasSubstr("image 0 has label 11, but labels are 1 to 10"));
  EXPECT_THAT(message(mat_header() + pixels + mat_array("y", {2, 1}, 2, "\x01\x02", false)),
              HasSubstr("y does not have one label for each of the 1 images"));
  EXPECT_THAT(message(mat_header() + mat_array("X", {32, 32, 3, 2}, 2, svhn_pixels(1), false)),
              HasSubstr("has an array of another size than its data"));
  const std::string y = mat_array("y", {1, 1}, 2, "\x01", false);
  EXPECT_THAT(message(mat_header() + mat_array("X", {16, 64, 3, 1}, 2, svhn_pixels(1), false) + y),
              HasSubstr("X is not an array of bytes of size 32 x 32 x 3 x N"));
  EXPECT_THAT(message(mat_header() + pixels + y, {.limit = 0}), HasSubstr("limit of 0 images"));
  std::string damaged = mat_header() + pixels + y;
  damaged[200] = static_cast<char>(damaged[200] ^ 0x55);
  EXPECT_THAT(message(damaged), HasSubstr("test_32x32.mat: "));
}

TEST(Svhn, MutilatedFilesAreRefused) {
  const TemporaryFolder scratch;
  const std::string whole = mat_header() +
                            mat_array("X", {32, 32, 3, 1}, 2, svhn_pixels(1), false) +
                            mat_array("y", {1, 1}, 2, "\x01", false);
  test::Dice dice;
  for (long i = test::fuzz_iterations(200); i > 0; --i) {
    write_file(scratch / "test_32x32.mat",
               test::mutilate(whole, dice, {mat_word(15), mat_word(0x7fffffff), mat_word(9)}));
    try {
      load_svhn(scratch.path(), Split::test);
    } catch (const IoError&) {
    }
  }
}

}  // namespace
}  // namespace rondo::data
