// Small files in the official layout.

#include "data/stl10.h"

#include <gmock/gmock.h>

#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::message_of, test::TemporaryFolder, test::write_file;
using ::testing::HasSubstr;

constexpr std::size_t stl_side = 96;

char stl_pixel(std::size_t i, std::size_t plane, std::size_t row, std::size_t column) {
  return static_cast<char>((i * 31 + plane * 101 + row * 7 + column * 3) % 251);
}

/// Planes in column-major order.
std::string stl_images(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t plane = 0; plane < 3; ++plane)
      for (std::size_t column = 0; column < stl_side; ++column)
        for (std::size_t row = 0; row < stl_side; ++row) bytes += stl_pixel(i, plane, row, column);
  return bytes;
}

TEST(Stl10, PlanesAreTurnedAround) {
  const TemporaryFolder scratch;
  std::filesystem::create_directory(scratch / "stl10_binary");
  write_file(scratch / "stl10_binary/train_X.bin", stl_images(3));
  write_file(scratch / "stl10_binary/train_y.bin", "\x01\x0a\x02");
  const auto set = load_stl10(scratch.path(), Split::train, {.records = 3});
  EXPECT_EQ(set->images().shape(), (Dims{3, 3, 96, 96}));
  EXPECT_EQ(set->labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 9, 1}));
  EXPECT_EQ(set->class_names()[9], "truck");
  const auto* bytes = set->images().data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t plane = 0; plane < 3; ++plane)
      for (std::size_t row = 0; row < stl_side; ++row)
        for (std::size_t column = 0; column < stl_side; ++column)
          ASSERT_EQ(*bytes++, static_cast<std::uint8_t>(stl_pixel(i, plane, row, column)));
  EXPECT_EQ(load_stl10(scratch / "stl10_binary", Split::train, {.limit = 2, .records = 3})->size(),
            2);
}

TEST(Stl10, BadFiles) {
  const TemporaryFolder scratch;
  const auto message = [&](Stl10Options options = {.records = 1}) {
    return message_of<IoError>([&] { load_stl10(scratch.path(), Split::test, options); });
  };
  EXPECT_THAT(message_of<IoError>([&] { load_stl10("/nowhere", Split::test); }),
              HasSubstr("/nowhere: no such folder"));
  EXPECT_THAT(message(), HasSubstr("test_X.bin: no such file"));
  write_file(scratch / "test_X.bin", stl_images(1));
  EXPECT_THAT(message(), HasSubstr("test_y.bin: no such file"));
  write_file(scratch / "test_y.bin", "\x0b");
  EXPECT_THAT(message(), HasSubstr("test_y.bin: image 0 has label 11, but labels are 1 to 10"));
  EXPECT_THAT(message({.records = 2}),
              HasSubstr("test_X.bin: 27648 bytes instead of 55296, which are 2 records of 27648 "
                        "bytes (it was cut short)"));
  EXPECT_THAT(message({}), HasSubstr("which are 8000 records"));
  EXPECT_THAT(message({.limit = 0, .records = 1}), HasSubstr("limit of 0 images"));
  write_file(scratch / "class_names.txt", "one\n");
  write_file(scratch / "test_y.bin", "\x01");
  EXPECT_THAT(message(), HasSubstr("1 names of classes, but there are 10 classes"));
}

}  // namespace
}  // namespace rondo::data
