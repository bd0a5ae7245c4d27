// Small IDX files made here, plain and gzip, and the official ones if they are installed.

#include "data/mnist.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "support/environment.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::TemporaryFolder, test::message_of, test::write_file;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string idx(std::vector<std::uint32_t> dims, const std::string& data) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const auto size : dims) bytes += big_endian(size);
  return bytes + data;
}

void write_gz(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

std::string pixels(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count * 784; ++i) bytes += static_cast<char>((i * 5 + i / 256) % 253);
  return bytes;
}

TEST(ReadIdx, PlainAndGzipGiveTheSameBytes) {
  TemporaryFolder scratch;
  const std::string bytes = idx({2, 3}, "abcdef");
  write_file(scratch / "plain", bytes);
  write_gz(scratch / "packed.gz", bytes);
  for (const char* name : {"plain", "packed.gz"}) {
    const Tensor read = read_idx(scratch / name);
    EXPECT_TRUE(test::identical(read, tensor<std::uint8_t>({'a', 'b', 'c', 'd', 'e', 'f'}, {2, 3})))
        << name;
  }
}

TEST(ReadIdx, SizesOfNothingAndOfMoreThanOneRead) {
  TemporaryFolder scratch;
  write_file(scratch / "none", idx({0, 28, 28}, ""));
  EXPECT_EQ(read_idx(scratch / "none").shape(), (Dims{0, 28, 28}));
  for (const std::uint32_t size : {(1U << 20) - 1, 1U << 20, (1U << 20) + 1}) {
    write_file(scratch / "large", idx({size}, std::string(size - 1, 'x') + 'y'));
    const Tensor read = read_idx(scratch / "large");
    ASSERT_EQ(read.numel(), size);
    EXPECT_EQ(read.data_ptr<std::uint8_t>()[size - 1], 'y');
  }
}

TEST(ReadIdx, AnotherMagicNumberIsRefused) {
  TemporaryFolder scratch;
  for (const std::string& magic :
       {std::string{'\x01', '\0', '\x08', '\x01'}, std::string{'\0', '\0', '\x0d', '\x01'},
        std::string{'\0', '\0', '\x08', '\0'}, std::string{'\0', '\0', '\x08', '\x05'}}) {
    write_file(scratch / "file", magic + big_endian(1) + "a");
    EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "file"); }),
                HasSubstr("file: magic number"));
  }
}

TEST(ReadIdx, EveryTruncationIsNoticed) {
  TemporaryFolder scratch;
  const std::string whole = idx({2, 3}, "abcdef");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(scratch / "short", whole.substr(0, size));
    EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "short"); }), HasSubstr("short: "));
  }
  write_file(scratch / "long", whole + 'x');
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "long"); }), HasSubstr("more bytes"));
}

TEST(ReadIdx, EveryTruncationOfGzipIsNoticed) {
  TemporaryFolder scratch;
  write_gz(scratch / "whole.gz", idx({2, 3}, "abcdef"));
  const std::string whole = test::read_file(scratch / "whole.gz");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_file(scratch / "short.gz", whole.substr(0, size));
    EXPECT_THROW(read_idx(scratch / "short.gz"), IoError)
        << size << " of " << whole.size() << " bytes";
  }
}

TEST(ReadIdx, DamagedGzipIsNoticed) {
  TemporaryFolder scratch;
  write_gz(scratch / "file.gz", idx({1, 28, 28}, pixels(1)));
  std::string bytes = test::read_file(scratch / "file.gz");
  bytes[bytes.size() - 6] ^= 1;  // a byte of the checksum of the contents
  write_file(scratch / "file.gz", bytes);
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "file.gz"); }),
              HasSubstr("file.gz: damaged"));
}

TEST(ReadIdx, AHeaderThatAsksForEverythingIsRefused) {
  TemporaryFolder scratch;
  write_file(scratch / "file", idx({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}, "a"));
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "file"); }),
              HasSubstr("ask for more than the 8589934592 bytes"));
  // Nor if sizes whose product overflows 64 bits are followed by a zero, so that the product is 0.
  write_file(scratch / "file", idx({0xffffffffU, 0xffffffffU, 0xffffffffU, 0}, ""));
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "file"); }),
              HasSubstr("ask for more than the 8589934592 bytes"));
  write_file(scratch / "file", idx({0x70000000U}, "a"));  // allowed, but no data: no 1.75 GiB first
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "file"); }), HasSubstr("cut short"));
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "nowhere"); }),
              HasSubstr("nowhere: no such file"));
}

// 60 MB of zeros compress to 60 KB of gzip.
TEST(Mnist, MoreThanTheSetHasIsRefusedBeforeItIsUnpacked) {
  TemporaryFolder scratch;
  const std::string head = idx({60001, 28, 28}, "");
  write_gz(scratch / "t10k-images-idx3-ubyte.gz", head);  // nothing after the header is read
  write_gz(scratch / "t10k-labels-idx1-ubyte.gz", idx({60001}, ""));
  auto load = [&] { load_mnist(scratch.path(), Split::test); };
  EXPECT_THAT(message_of<IoError>(load),
              AllOf(HasSubstr("t10k-images-idx3-ubyte.gz: dimensions [60001, 28, 28]"),
                    HasSubstr("ask for more than the 47040000 bytes that are allowed here")));
  write_gz(scratch / "t10k-images-idx3-ubyte.gz", idx({1, 28, 28}, pixels(1)));
  EXPECT_THAT(message_of<IoError>(load), HasSubstr("ask for more than the 60000 bytes"));
  EXPECT_THAT(message_of<IoError>([&] { read_idx(scratch / "t10k-images-idx3-ubyte.gz", 783); }),
              HasSubstr("ask for more than the 783 bytes"));
}

TEST(Mnist, ReadsBothSplitsFromEitherPlace) {
  TemporaryFolder scratch;
  const std::string data = pixels(3);
  write_file(scratch / "MNIST/raw/train-images-idx3-ubyte", idx({3, 28, 28}, data));
  write_gz(scratch / "MNIST/raw/train-labels-idx1-ubyte.gz", idx({3}, {'\x09', '\0', '\x04'}));
  write_gz(scratch / "t10k-images-idx3-ubyte.gz", idx({1, 28, 28}, pixels(1)));
  write_file(scratch / "t10k-labels-idx1-ubyte", idx({1}, {'\x05'}));
  const auto train = load_mnist(scratch.path(), Split::train);
  ASSERT_EQ(train->images().shape(), (Dims{3, 1, 28, 28}));
  EXPECT_EQ(train->labels().to_vector<std::int64_t>(), (std::vector<std::int64_t>{9, 0, 4}));
  for (std::size_t i = 0; i < data.size(); ++i) {
    ASSERT_EQ(train->images().data_ptr<std::uint8_t>()[i], static_cast<std::uint8_t>(data[i]));
  }
  const auto two = load_mnist(scratch.path(), Split::train, {.limit = 2});
  EXPECT_EQ(two->images().shape(), (Dims{2, 1, 28, 28}));
  EXPECT_TRUE(two->images().is_contiguous());
  EXPECT_EQ(load_mnist(scratch.path(), Split::test)->labels().item<std::int64_t>(), 5);
  EXPECT_THROW(load_mnist(scratch.path(), Split::train, {.limit = 0}), IoError);
}

TEST(Mnist, FilesThatDisagreeAreNamed) {
  TemporaryFolder scratch;
  const fs::path images = scratch / "train-images-idx3-ubyte",
                 labels = scratch / "train-labels-idx1-ubyte";
  auto load = [&] { load_mnist(scratch.path(), Split::train); };
  EXPECT_THAT(message_of<IoError>(load), HasSubstr("train-images-idx3-ubyte: file not found"));
  write_file(images, idx({2, 28, 28}, pixels(2)));
  EXPECT_THAT(message_of<IoError>(load), HasSubstr("train-labels-idx1-ubyte: file not found"));
  write_file(labels, idx({1}, "\x01"));
  EXPECT_THAT(message_of<IoError>(load), HasSubstr("1 labels for 2 images"));
  write_file(labels, idx({2}, "\x01\x0a"));
  EXPECT_THAT(message_of<IoError>(load),
              HasSubstr("train-labels-idx1-ubyte: record 1 (byte 9) has label 10"));
  write_file(labels, idx({2, 1}, "\x01\x02"));
  EXPECT_THAT(message_of<IoError>(load), HasSubstr("train-labels-idx1-ubyte: dimensions [2, 1]"));
  write_file(images, idx({2, 28, 27}, std::string(2 * 28 * 27, 'x')));
  EXPECT_THAT(message_of<IoError>(load),
              HasSubstr("train-images-idx3-ubyte: dimensions [2, 28, 27]"));
  EXPECT_THAT(message_of<IoError>([&] { load_mnist(scratch / "nowhere", Split::test); }),
              HasSubstr("nowhere: no such folder"));
}

void check_official(const ImageDataset& train, const ImageDataset& test) {
  EXPECT_EQ(train.images().shape(), (Dims{60000, 1, 28, 28}));
  EXPECT_EQ(test.images().shape(), (Dims{10000, 1, 28, 28}));
}

/// Mean of all bytes, over 255.
double mean_of(const ImageDataset& set) {
  double sum = 0;
  const auto* bytes = set.images().data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < set.images().numel(); ++i) sum += bytes[i];
  return sum / 255 / static_cast<double>(set.images().numel());
}

TEST(Mnist, OfficialFiles) {
  const fs::path dir = test::real_data();
  if (!fs::exists(dir / "MNIST/raw")) GTEST_SKIP() << "no MNIST in $RONDO_DATA";
  const auto train = load_mnist(dir, Split::train), test = load_mnist(dir, Split::test);
  check_official(*train, *test);
  EXPECT_NEAR(mean_of(*train), 0.1307, 5e-5);  // the mean that is commonly used to normalise
  const auto labels = train->labels().to_vector<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(labels.begin(), labels.begin() + 5),
            (std::vector<std::int64_t>{5, 0, 4, 1, 9}));
}

TEST(FashionMnist, PackageOfTheDistribution) {
  const fs::path dir = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(dir)) GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  const auto train = load_fashion_mnist(dir, Split::train),
             test = load_fashion_mnist(dir, Split::test);
  check_official(*train, *test);
  EXPECT_NEAR(mean_of(*train), 0.2860, 5e-5);
  EXPECT_EQ(
      train->class_names()[static_cast<std::size_t>(train->labels().data_ptr<std::int64_t>()[0])],
      "Ankle boot");
  std::vector<std::int64_t> counts(10);
  for (const auto label : test->labels().to_vector<std::int64_t>())
    ++counts[static_cast<std::size_t>(label)];
  EXPECT_EQ(counts, std::vector<std::int64_t>(10, 1000));
}

TEST(Kmnist, FilesOfMnistsLayout) {
  TemporaryFolder scratch;
  write_gz(scratch / "KMNIST/raw/t10k-images-idx3-ubyte.gz", idx({2, 28, 28}, pixels(2)));
  write_gz(scratch / "KMNIST/raw/t10k-labels-idx1-ubyte.gz", idx({2}, std::string("\x09\x01")));
  const auto set = load_kmnist(scratch.path(), Split::test);
  EXPECT_EQ(set->images().shape(), (Dims{2, 1, 28, 28}));
  EXPECT_EQ(set->labels().to_vector<int>(), (std::vector{9, 1}));
  EXPECT_EQ(set->class_names()[9], "wo");
  EXPECT_THAT(message_of<IoError>([&] { load_kmnist(scratch.path(), Split::train); }),
              HasSubstr("train-images-idx3-ubyte: file not found (also tried with .gz)"));
}

TEST(Emnist, PartsHaveTheirFilesAndClasses) {
  TemporaryFolder scratch;
  const std::vector<std::tuple<std::string, int, std::string>> parts{
      {"byclass", 62, "z"}, {"bymerge", 47, "t"}, {"balanced", 47, "t"},
      {"letters", 27, "z"}, {"digits", 10, "9"},  {"mnist", 10, "9"}};
  for (const auto& [part, classes, last] : parts) {
    const std::string name = "emnist-" + part + "-train-";
    write_gz(scratch / "EMNIST/raw" / (name + "images-idx3-ubyte.gz"), idx({2, 28, 28}, pixels(2)));
    const auto write_labels = [&](int label) {
      write_gz(scratch / "EMNIST/raw" / (name + "labels-idx1-ubyte.gz"),
               idx({2}, {'\1', static_cast<char>(label)}));
    };
    write_labels(classes - 1);
    const auto set = load_emnist(scratch.path(), part, Split::train);
    EXPECT_EQ(set->labels().to_vector<int>(), (std::vector{1, classes - 1}));
    EXPECT_EQ(set->num_classes(), classes);
    EXPECT_EQ(set->class_names().back(), last);
    EXPECT_EQ(set->images().data_ptr<std::uint8_t>()[1], 5);  // not transposed back
    write_labels(classes);
    EXPECT_THAT(
        message_of<IoError>([&, &part = part] { load_emnist(scratch.path(), part, Split::train); }),
        HasSubstr("record 1 (byte 9) has label " + std::to_string(classes)));
    EXPECT_THAT(
        message_of<IoError>([&, &part = part] { load_emnist(scratch.path(), part, Split::test); }),
        HasSubstr("emnist-" + part + "-test-images-idx3-ubyte: file not found"));
  }
  EXPECT_THAT(message_of<Error>([&] { load_emnist(scratch.path(), "all", Split::train); }),
              HasSubstr("part 'all' should be byclass"));
}

}  // namespace
}  // namespace rondo::data
