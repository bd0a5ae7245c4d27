// Gives mutilated files to the readers of data sets. Whatever the bytes, the result is images or an
// IoError, and an archive never writes outside its folder.

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "data/cifar.h"
#include "data/download.h"
#include "data/mnist.h"
#include "data/tar.h"
#include "support/files.h"
#include "support/mutilate.h"

namespace rondo::data {
namespace {

using test::Dice, test::TemporaryFolder, test::write_file;
namespace fs = std::filesystem;

/// The number of damaged forms of `whole` that the reader refuses.
template <class Read>
long refusals(const std::string& whole, long iterations, const fs::path& file,
              const std::vector<std::string>& words, Read read) {
  Dice dice;
  long refused = 0;
  for (long i = 0; i < iterations; ++i) {
    write_file(file, test::mutilate(whole, dice, words));
    try {
      read();
    } catch (const IoError&) {
      ++refused;
    }
  }
  return refused;
}

const std::vector<std::string> binary_words{std::string(4, '\xff'), std::string(4, '\0'),
                                            std::string("\x7f\xff\xff\xff", 4),
                                            std::string("\0\0\x08\x04", 4)};

TEST(Fuzz, IdxFiles) {
  TemporaryFolder folder;
  const std::string whole =
      std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x02", 16) + std::string(12, 'p');
  const long iterations = test::fuzz_iterations(3000);
  const long refused =
      refusals(whole, iterations, folder / "idx", binary_words, [&] { read_idx(folder / "idx"); });
  EXPECT_GT(refused, iterations / 3);  // changes of pixels are not refused
}

TEST(Fuzz, CifarFiles) {
  TemporaryFolder folder;
  std::string whole;
  for (char label : {'\0', '\x09', '\x04'}) whole += label + std::string(3072, 'p');
  const long iterations = test::fuzz_iterations(1000);
  const long refused = refusals(whole, iterations, folder / "test_batch.bin", binary_words, [&] {
    auto set = load_cifar10(folder.path(), Split::test, {.records_per_file = 3});
    for (std::int64_t label : set->labels().to_vector<std::int64_t>()) {
      ASSERT_GE(label, 0);
      ASSERT_LT(label, 10);
    }
  });
  EXPECT_GT(refused, iterations / 3);  // most change the size
}

std::string gunzipped(const fs::path& file) {
  std::string bytes(1 << 16, '\0');
  gzFile in = gzopen(file.c_str(), "rb");
  bytes.resize(static_cast<std::size_t>(gzread(in, bytes.data(), 1 << 16)));
  gzclose(in);
  return bytes;
}

TEST(Fuzz, Archives) {
  TemporaryFolder folder;
  test::write_tar_gz(folder / "whole.tar.gz",
                     {{"set/", "", AE_IFDIR}, {"set/one", "1"}, {"set/deep/two", "22"}});
  // The tar inside is damaged, then compressed again. A damaged gzip would be refused earlier.
  const std::string whole = gunzipped(folder / "whole.tar.gz");
  const std::vector<std::string> words{"../", "/", "1", "2", "5", std::string(512, '\0')};
  Dice dice;
  for (long i = test::fuzz_iterations(600); i > 0; --i) {
    const std::string damaged = test::mutilate(whole, dice, words);
    gzFile out = gzopen((folder / "a.tar.gz").c_str(), "wb1");
    gzwrite(out, damaged.data(), static_cast<unsigned>(damaged.size()));
    gzclose(out);
    fs::remove_all(folder / "into");
    try {
      unpack(folder / "a.tar.gz", folder / "into");
    } catch (const IoError&) {
    }
  }
  fs::remove_all(folder / "into");
  EXPECT_EQ(folder.count(), 2);  // whole.tar.gz and a.tar.gz, no other file
}

}  // namespace
}  // namespace rondo::data
