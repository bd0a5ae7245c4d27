// Throws mutilated files of torch.save's at their reader: whatever the bytes, tensors or an
// IoError.

#include "io/torch_pickle.h"

#include <gtest/gtest.h>

#include <span>

#include "support/golden.h"
#include "support/mutilate.h"

namespace rondo {
namespace {

TEST(Fuzz, TorchFiles) {
  const std::vector<std::string> words = {"\x80\x02", "}q",           ")R",         "(",
                                          "tQ",       "u.",           "PK\x01\x02", "PK\x03\x04",
                                          "data.pkl", "cos\nsystem\n"};
  long refused = 0;
  const long iterations = test::fuzz_iterations(3000);
  for (const char* form : {"zip", "legacy", "checkpoint_legacy"}) {
    const std::string whole = test::golden_bytes("torch_files_hex.txt", form);
    test::Dice dice;
    for (long i = 0; i < iterations; ++i) {
      const std::string bytes = test::mutilate(whole, dice, words);
      try {
        const io::TorchFile file = io::parse_torch(std::as_bytes(std::span(bytes)), "fuzz");
        for (const auto& entry : file.tensors) EXPECT_GE(entry.tensor.contiguous().numel(), 0);
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, iterations);  // who changes an element changes a number only
}

}  // namespace
}  // namespace rondo
