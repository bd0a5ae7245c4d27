// Gives mutilated tokenizer.json files to their reader. Whatever the bytes, the result is an
// IoError, or a tokenizer that encodes, decodes or throws Error.

#include "extras/text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/mutilate.h"
#include "tensor/error.h"

namespace rondo {
namespace {

TEST(Fuzz, Tokenizers) {
  const std::vector<std::string> words = {
      "null",        "[]",        "{}",           "-1",
      "\"type\":",   "\"BPE\"",   "\"Sequence\"", "\"ByteLevel\"",
      "\"Replace\"", "\"Strip\"", "2147483648",   "\"\""};
  std::ifstream in(std::string(RONDO_GOLDEN_DIR) + "/tokenizers.txt");
  long refused = 0, read = 0;
  const long iterations = test::fuzz_iterations(200);
  test::Dice dice;
  for (std::string line; std::getline(in, line);) {
    const std::size_t json = line.find(" json ");
    if (json == std::string::npos) continue;
    for (long i = 0; i < iterations; ++i) {
      try {
        const auto tokenizer =
            text::Tokenizer::from_str(test::mutilate(line.substr(json + 6), dice, words), "fuzz");
        ++read;
        tokenizer.decode(tokenizer.encode("The quick  [MASK] é 北 <0x41>\n"));
      } catch (const IoError&) {
        ++refused;
      } catch (const Error&) {  // an id of a template that no token has
      }
    }
  }
  EXPECT_GT(refused, iterations);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace rondo
