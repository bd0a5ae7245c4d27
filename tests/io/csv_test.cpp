// Tables of numbers, and errors that name line and column.

#include "io/csv.h"

#include <gmock/gmock.h>

#include <cmath>

#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TEST(Csv, ReadsNumbersAndNames) {
  const io::Csv csv = io::parse_csv("a,\"b c\", d \n1,-2.5,1e-3\n+4, \"5\" ,6\n", "memory");
  EXPECT_EQ(csv.columns, (std::vector<std::string>{"a", "b c", "d"}));
  EXPECT_EQ(csv.values.shape(), (Dims{2, 3}));
  EXPECT_EQ(csv.values.dtype(), f32);
  EXPECT_EQ(csv.values.to_vector<float>(), (std::vector<float>{1, -2.5F, 1e-3F, 4, 5, 6}));
}

TEST(Csv, OptionsAndLineEnds) {
  const io::Csv csv = io::parse_csv(
      "\xef\xbb\xbf"
      "1;2\r\n3;0.1\r\n\r\n",
      "memory", {.delimiter = ';', .header = false, .dtype = f64});
  EXPECT_TRUE(csv.columns.empty());
  EXPECT_EQ(csv.values.to_vector<double>(), (std::vector<double>{1, 2, 3, 0.1}));
  const auto special = io::parse_csv("x\nnan\n-inf", "memory").values.to_vector<float>();
  EXPECT_TRUE(std::isnan(special[0]) && std::isinf(special[1]) && special[1] < 0);
  EXPECT_EQ(io::parse_csv("a\tb\n1\t2", "memory", {.delimiter = '\t'}).values.shape(),
            (Dims{1, 2}));
  EXPECT_EQ(io::parse_csv("a,b\n", "memory").values.shape(), (Dims{0, 2}));
  EXPECT_EQ(io::parse_csv("", "memory").values.shape(), (Dims{0, 0}));
}

TEST(Csv, ReadsFiles) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "x.csv", "a\n7\n");
  EXPECT_EQ(io::load_csv(folder / "x.csv").values.item(), 7);
  test::write_file(folder / "empty.csv", "");
  EXPECT_EQ(io::load_csv(folder / "empty.csv").values.numel(), 0);
  EXPECT_THROW(io::load_csv(folder / "none"), IoError);
}

TEST(Csv, ErrorsNameLineAndColumn) {
  const auto message = [](const char* text) {
    return message_of<IoError>([&] { io::parse_csv(text, "x.csv"); });
  };
  EXPECT_EQ(message("a,b\n1,2\n3,\n"),
            "x.csv, line 3, column 2: a value is missing; fill it in, or leave out the line");
  EXPECT_EQ(message("a,b\n1,cat\n"), "x.csv, line 2, column 2: 'cat' is not a number");
  EXPECT_EQ(message("a,b\n1,2x\n"), "x.csv, line 2, column 2: '2x' is not a number");
  EXPECT_EQ(message("a,b\n+,2\n"), "x.csv, line 2, column 1: '+' is not a number");
  EXPECT_EQ(message("a\n1e99\n"),
            "x.csv, line 2, column 1: '1e99' is outside the range of the dtype");
  EXPECT_EQ(message("a,b\n1\n"), "x.csv, line 2: has 1 values, but the first line has 2");
  EXPECT_EQ(message("a,b\n1,2,3\n"), "x.csv, line 2: has 3 values, but the first line has 2");
  EXPECT_EQ(message("a\n1\n\n2\n"), "x.csv, line 3: is empty, but more lines follow");
  EXPECT_THAT(message_of<DTypeError>([] { io::parse_csv("a", "x", {.dtype = i64}); }),
              HasSubstr("should be f32 or f64"));
}

TEST(Csv, TinyNumbersAndSigns) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.csv", "1e-50,+2,-1e-40,1e-400\n");
  const std::vector<float> read =
      io::load_csv(folder / "a.csv", {.header = false}).values.to_vector<float>();
  EXPECT_EQ(read, (std::vector<float>{0, 2, -1e-40F, 0}));
  test::write_file(folder / "c.csv", "1e-50abc\n");
  EXPECT_ERROR(io::load_csv(folder / "c.csv", {.header = false}), IoError, "is outside the range");
  test::write_file(folder / "b.csv", "+-1\n");
  EXPECT_ERROR(io::load_csv(folder / "b.csv", {.header = false}), IoError, "'+-1' is not a number");
}

}  // namespace
}  // namespace rondo
