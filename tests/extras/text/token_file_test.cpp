#include "extras/text/token_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/loader.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using text::TokenFile;
using text::TokenFileOptions;
using text::TokenWidth;

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 1000);
  return tokens;
}

TEST(TokenFile, IsLittleEndian) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens.bin").string();
  text::write_tokens(path, std::vector<std::int64_t>{1, 0x1234, 65535});
  EXPECT_EQ(read_file(path), std::string("\x01\x00\x34\x12\xff\xff", 6));
  text::write_tokens(path, std::vector<std::int64_t>{0x12345678, 7}, TokenWidth::u32);
  EXPECT_EQ(read_file(path), std::string("\x78\x56\x34\x12\x07\x00\x00\x00", 8));
  const TokenFile file(path, {.context = 1, .width = TokenWidth::u32});
  EXPECT_EQ(file.tokens(0, 2).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0x12345678, 7}));
}

TEST(TokenFile, GivesWindowsThatDependOnSeedEpochAndIndex) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens.bin").string();
  text::write_tokens(path, counted(5000));
  const TokenFile file(path, {.context = 9});
  EXPECT_EQ(file.num_tokens(), 5000);
  EXPECT_EQ(file.size(), 500);
  std::int64_t first = 5000, last = 0;
  for (std::int64_t i = 0; i < file.size(); ++i) {
    const auto [input, target] = file.get(i);
    const auto begin = input[0].item<std::int64_t>();
    EXPECT_TRUE(identical(input, arange(begin, begin + 9)));
    EXPECT_TRUE(identical(target, arange(begin + 1, begin + 10)));
    first = std::min(first, begin);
    last = std::max(last, begin);
  }
  EXPECT_LT(first, 1100);  // each with probability 1 - exp(-10)
  EXPECT_GT(last, 5880);
  EXPECT_TRUE(identical(file.get_epoch_sample(3, 7).input, file.get_epoch_sample(3, 7).input));
  EXPECT_FALSE(identical(file.get_epoch_sample(3, 7).input, file.get_epoch_sample(4, 7).input));
  const TokenFile other(path, {.context = 9, .windows = 3, .seed = 1});
  EXPECT_EQ(other.size(), 3);
  EXPECT_FALSE(identical(file.get(0).input, other.get(0).input));
}

TEST(TokenFile, HasAllWindows) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens.bin").string();
  text::write_tokens(path, counted(5));
  const TokenFile file(path, {.context = 3, .windows = 64});
  std::vector<int> seen(2);
  for (std::int64_t i = 0; i < 64; ++i)
    ++seen.at(static_cast<std::size_t>(file.get(i).input[0].item<std::int64_t>() - 1000));
  EXPECT_GT(seen[0], 10);
  EXPECT_GT(seen[1], 10);
}

TEST(TokenFile, IsLoadedInBatches) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens.bin").string();
  text::write_tokens(path, counted(100));
  const auto file = std::make_shared<TokenFile>(path, TokenFileOptions{.context = 4});
  data::DataLoader loader(file, {.batch_size = 5});
  std::int64_t batches = 0;
  for (auto& [input, target] : loader) {
    EXPECT_EQ(input.shape(), (Dims{5, 4}));
    EXPECT_TRUE(identical(target.narrow(1, 0, 3), input.narrow(1, 1, 3)));
    ++batches;
  }
  EXPECT_EQ(batches, 4);
}

TEST(TokenFileErrors, NameTheFile) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens.bin").string();
  EXPECT_ERROR(TokenFile(path), IoError, path);
  write_file(path, "abc");
  EXPECT_ERROR(TokenFile(path, {.context = 1}), IoError,
               "tokens.bin: 3 bytes are not a whole number of tokens of 2 bytes");
  text::write_tokens(path, counted(4));
  EXPECT_ERROR(TokenFile(path, {.context = 4}), IoError,
               "tokens.bin: 4 tokens are too few for windows of 5");
  EXPECT_ERROR(TokenFile(path, {.context = 0}), Error, "TokenFile: the context is 0");
  EXPECT_ERROR(TokenFile(path, {.context = 1, .windows = -1}), Error,
               "TokenFile: the number of windows is -1");
  EXPECT_ERROR(TokenFile(path, {.context = 1}).tokens(3, 2), ShapeError,
               "TokenFile: tokens 3 to 5 of 4");
  EXPECT_ERROR(text::write_tokens(path, std::vector<std::int64_t>{65536}), Error,
               "write_tokens: token 65536 does not fit 2 bytes");
  EXPECT_ERROR(text::write_tokens(path, std::vector<std::int64_t>{-1}), Error, "token -1");
}

}  // namespace
}  // namespace rondo::test
