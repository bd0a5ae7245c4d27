// Small files in the official layout, and the official files if $RONDO_DATA has them.

#include "data/cifar.h"

#include <gmock/gmock.h>

#include <numeric>

#include "support/environment.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::read_file, test::TemporaryFolder, test::message_of, test::write_file;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::size_t image_bytes = 3072;

/// Byte b of image i of a file: differs from its neighbours, in every channel and row.
char pixel(int file, std::size_t i, std::size_t b) {
  return static_cast<char>((b * 7 + b / 256 + i * 31 + static_cast<std::size_t>(file) * 101) % 251);
}

/// `records` records with labels first, first + 1, … modulo 10.
std::string cifar10_file(int file, std::size_t records, std::size_t first = 0) {
  std::string bytes;
  for (std::size_t i = 0; i < records; ++i) {
    bytes += static_cast<char>((first + i) % 10);
    for (std::size_t b = 0; b < image_bytes; ++b) bytes += pixel(file, i, b);
  }
  return bytes;
}

void write_cifar10(const fs::path& folder, std::size_t records) {
  for (int file = 1; file <= 5; ++file) {
    write_file(folder / concat("data_batch_", file, ".bin"),
               cifar10_file(file, records, static_cast<std::size_t>(file)));
  }
  write_file(folder / "test_batch.bin", cifar10_file(6, records, 6));
}

TEST(Cifar10, ReadsTrainingFilesByteForByte) {
  TemporaryFolder scratch;
  write_cifar10(scratch / "cifar-10-batches-bin", 3);
  const auto set = load_cifar10(scratch.path(), Split::train, {.records_per_file = 3});
  ASSERT_EQ(set->images().shape(), (Dims{15, 3, 32, 32}));
  const auto* bytes = set->images().data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < 15; ++i) {
    const std::size_t file = i / 3 + 1;
    EXPECT_EQ(set->labels().data_ptr<std::int64_t>()[i],
              static_cast<std::int64_t>((file + i % 3) % 10));
    for (std::size_t b = 0; b < image_bytes; ++b) {
      ASSERT_EQ(bytes[i * image_bytes + b],
                static_cast<std::uint8_t>(pixel(static_cast<int>(file), i % 3, b)))
          << "byte " << b << " of image " << i;
    }
  }
}

TEST(Cifar10, MoreRecordsThanOneRead) {
  TemporaryFolder scratch;
  write_file(scratch / "test_batch.bin", cifar10_file(6, 257));
  const auto set = load_cifar10(scratch.path(), Split::test, {.records_per_file = 257});
  EXPECT_EQ(set->size(), 257);
  EXPECT_EQ(set->labels().data_ptr<std::int64_t>()[256], 256 % 10);
  EXPECT_EQ(set->images().data_ptr<std::uint8_t>()[256 * image_bytes + 5],
            static_cast<std::uint8_t>(pixel(6, 256, 5)));
}

TEST(Cifar10, TheFolderItselfWillDo) {
  TemporaryFolder scratch;
  write_cifar10(scratch.path(), 2);
  const auto set = load_cifar10(scratch.path(), Split::test, {.records_per_file = 2});
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(set->labels().data_ptr<std::int64_t>()[1], 7);
}

TEST(Cifar10, LimitTakesTheFirst) {
  TemporaryFolder scratch;
  write_cifar10(scratch.path(), 3);
  const auto set = load_cifar10(scratch.path(), Split::train, {.limit = 4, .records_per_file = 3});
  EXPECT_EQ(set->size(), 4);
  EXPECT_EQ(set->labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3, 2}));
  const auto all = load_cifar10(scratch.path(), Split::train, {.limit = 99, .records_per_file = 3});
  EXPECT_EQ(all->size(), 15);
  EXPECT_THROW(load_cifar10(scratch.path(), Split::train, {.limit = 0, .records_per_file = 3}),
               IoError);
}

TEST(Cifar10, NamesComeFromTheMetaFile) {
  TemporaryFolder scratch;
  write_cifar10(scratch.path(), 1);
  EXPECT_EQ(load_cifar10(scratch.path(), Split::test, {.records_per_file = 1})->class_names()[9],
            "truck");
  write_file(scratch / "batches.meta.txt", "a\nb\nc\r\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto names =
      load_cifar10(scratch.path(), Split::test, {.records_per_file = 1})->class_names();
  EXPECT_EQ(names[2], "c");
  EXPECT_EQ(names[9], "j");
  write_file(scratch / "batches.meta.txt", "a\nb\n");
  EXPECT_THAT(message_of<IoError>(
                  [&] { load_cifar10(scratch.path(), Split::test, {.records_per_file = 1}); }),
              HasSubstr("batches.meta.txt: 2 names"));
}

TEST(Cifar10, OfficialFilesHaveTenThousandRecords) {
  TemporaryFolder scratch;
  write_cifar10(scratch.path(), 2);
  EXPECT_THAT(
      message_of<IoError>([&] { load_cifar10(scratch.path(), Split::test); }),
      HasSubstr(
          "test_batch.bin: 6146 bytes instead of 30730000: the file ends in record 2 of 10000"));
}

TEST(Cifar10, TruncatedAndOverlongFilesAreNamed) {
  TemporaryFolder scratch;
  write_cifar10(scratch.path(), 2);
  const std::string whole = read_file(scratch / "data_batch_3.bin");
  auto load = [&] { load_cifar10(scratch.path(), Split::train, {.records_per_file = 2}); };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{3073}, whole.size() - 1}) {
    write_file(scratch / "data_batch_3.bin", whole.substr(0, size));
    EXPECT_THAT(message_of<IoError>(load), HasSubstr(concat("data_batch_3.bin: ", size, " bytes")));
  }
  write_file(scratch / "data_batch_3.bin", whole + 'x');
  EXPECT_THAT(message_of<IoError>(load), HasSubstr("data_batch_3.bin: 6147 bytes"));
  // The limit ends before the damaged file, but it would be wrong to train without an error.
  EXPECT_THROW(load_cifar10(scratch.path(), Split::train, {.limit = 1, .records_per_file = 2}),
               IoError);
}

TEST(Cifar10, ALabelOutsideTheClassesIsNamedWithItsRecordAndByte) {
  TemporaryFolder scratch;
  std::string bytes = cifar10_file(6, 4);
  for (const char label : {char{10}, static_cast<char>(255)}) {
    bytes[2 * 3073] = label;
    write_file(scratch / "test_batch.bin", bytes);
    EXPECT_THAT(message_of<IoError>(
                    [&] { load_cifar10(scratch.path(), Split::test, {.records_per_file = 4}); }),
                HasSubstr(concat("test_batch.bin: record 2 (byte 6146) has label ",
                                 int{static_cast<std::uint8_t>(label)})));
  }
}

TEST(Cifar10, MissingFilesAndFoldersAreNamed) {
  TemporaryFolder scratch;
  write_cifar10(scratch.path(), 1);
  fs::remove(scratch / "data_batch_4.bin");
  EXPECT_THAT(message_of<IoError>(
                  [&] { load_cifar10(scratch.path(), Split::train, {.records_per_file = 1}); }),
              HasSubstr("data_batch_4.bin: no such file"));
  fs::create_directory(scratch / "data_batch_4.bin");
  EXPECT_THAT(message_of<IoError>(
                  [&] { load_cifar10(scratch.path(), Split::train, {.records_per_file = 1}); }),
              HasSubstr("data_batch_4.bin: is a folder, not a file"));
  EXPECT_THAT(message_of<IoError>([&] { load_cifar10(scratch / "nowhere", Split::train); }),
              HasSubstr("nowhere: no such folder"));
  EXPECT_THROW(load_cifar10(scratch.path(), Split::test, {.coarse_labels = true}), Error);
}

TEST(Cifar100, FineAndCoarseLabels) {
  TemporaryFolder scratch;
  const fs::path folder = scratch / "cifar-100-binary";
  std::string bytes;
  for (std::size_t i = 0; i < 3; ++i) {
    bytes += static_cast<char>(17 + i);  // coarse
    bytes += static_cast<char>(97 + i);  // fine
    for (std::size_t b = 0; b < image_bytes; ++b) bytes += pixel(0, i, b);
  }
  write_file(folder / "train.bin", bytes);
  write_file(folder / "test.bin", bytes.substr(0, 3074));
  const auto fine = load_cifar100(scratch.path(), Split::train, {.records_per_file = 3});
  EXPECT_EQ(fine->labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{97, 98, 99}));
  EXPECT_EQ(fine->num_classes(), 100);
  EXPECT_EQ(fine->images().data_ptr<std::uint8_t>()[2 * image_bytes + 3071],
            static_cast<std::uint8_t>(pixel(0, 2, 3071)));
  const auto coarse =
      load_cifar100(scratch.path(), Split::train, {.coarse_labels = true, .records_per_file = 3});
  EXPECT_EQ(coarse->labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{17, 18, 19}));
  EXPECT_EQ(coarse->num_classes(), 20);
  EXPECT_EQ(load_cifar100(scratch.path(), Split::test, {.records_per_file = 1})->size(), 1);

  bytes[1] = 100;
  write_file(folder / "train.bin", bytes);
  EXPECT_THAT(message_of<IoError>(
                  [&] { load_cifar100(scratch.path(), Split::train, {.records_per_file = 3}); }),
              HasSubstr("train.bin: record 0 (byte 1) has label 100"));
  EXPECT_THAT(message_of<IoError>([&] { load_cifar100(scratch.path(), Split::train); }),
              HasSubstr("instead of 153700000"));
}

TEST(Cifar10, OfficialFiles) {
  const fs::path dir = test::real_data();
  if (!fs::exists(dir / "cifar-10-batches-bin")) GTEST_SKIP() << "no CIFAR-10 in $RONDO_DATA";
  for (const Split split : {Split::train, Split::test}) {
    const auto set = load_cifar10(dir, split);
    const std::int64_t each = split == Split::train ? 5000 : 1000;
    ASSERT_EQ(set->size(), 10 * each);
    EXPECT_EQ(set->class_names()[0], "airplane");
    std::vector<std::int64_t> counts(10);
    for (const auto label : set->labels().to_vector<std::int64_t>())
      ++counts[static_cast<std::size_t>(label)];
    EXPECT_EQ(counts, std::vector<std::int64_t>(10, each));  // the set is balanced
    // The last image of the last file, read directly from the disk.
    const std::string bytes =
        read_file(dir / "cifar-10-batches-bin" /
                  (split == Split::train ? "data_batch_5.bin" : "test_batch.bin"));
    const std::string last(reinterpret_cast<const char*>(set->images().data_ptr<std::uint8_t>()) +
                               (set->size() - 1) * static_cast<std::int64_t>(image_bytes),
                           image_bytes);
    EXPECT_TRUE(last == bytes.substr(bytes.size() - image_bytes));
  }
}

TEST(Cifar100, OfficialFiles) {
  const fs::path dir = test::real_data();
  if (!fs::exists(dir / "cifar-100-binary/test.bin")) GTEST_SKIP() << "no CIFAR-100 in $RONDO_DATA";
  for (const bool coarse : {false, true}) {
    const auto set = load_cifar100(dir, Split::test, {.coarse_labels = coarse});
    std::vector<std::int64_t> counts(coarse ? 20 : 100);
    for (const auto label : set->labels().to_vector<std::int64_t>())
      ++counts[static_cast<std::size_t>(label)];
    EXPECT_EQ(counts, std::vector<std::int64_t>(counts.size(), coarse ? 500 : 100));
  }
}

}  // namespace
}  // namespace rondo::data
