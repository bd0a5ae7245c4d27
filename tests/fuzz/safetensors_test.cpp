// Gives mutilated files to the readers. Whatever the bytes, the result is tensors or an IoError.
// Run it under the sanitizers; RONDO_FUZZ_ITERATIONS sets the number of iterations.

#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "io/checkpoint.h"
#include "support/files.h"
#include "support/hashed.h"
#include "support/mutilate.h"

namespace rondo {
namespace {

using test::Dice;

/// All kinds of damage, and words of JSON.
std::string mutilate(const std::string& whole, Dice& dice) {
  static const std::vector<std::string> words{"[",
                                              "]",
                                              "{",
                                              "}",
                                              "\"",
                                              ",",
                                              ":",
                                              "-1",
                                              "1e9",
                                              "null",
                                              "18446744073709551615",
                                              "\"dtype\":\"BOOL\"",
                                              "\\u0000",
                                              "\"__metadata__\":{}",
                                              "[0,0]",
                                              "9223372036854775807"};
  std::string bytes = test::mutilate(whole, dice, words);
  // Half of them get a matching length, so that the parser gets past the first check.
  if (bytes.size() > 8 && dice.below(2)) {
    std::uint64_t length = bytes.rfind('}') == std::string::npos ? 0 : bytes.rfind('}') - 7;
    std::memcpy(bytes.data(), &length, sizeof length);
  }
  return bytes;
}

std::vector<std::string> seeds() {
  test::TemporaryFolder folder;
  io::save_safetensors(folder / "a",
                       {{"w", test::hashed_tensor(1, 1, {2, 2})},
                        {"b", zeros({3}, {.dtype = boolean})},
                        {"e", zeros({0, 5})}},
                       {{"key", "value"}});
  io::Checkpoint c;
  c.model = "mlp";
  c.model_state = {{"w", ones({2})}};
  c.schedule = optim::ScheduleState{.type = "StepLR", .values = {{"gamma", {0.1}}}, .children = {}};
  io::save_checkpoint(folder / "c", c);
  return {test::read_file(folder / "a"), test::read_file(folder / "c")};
}

TEST(Fuzz, ReadersSurviveAnyBytes) {
  const long iterations = test::fuzz_iterations(3000);
  Dice dice;
  auto originals = seeds();
  long refused = 0;
  for (long i = 0; i < iterations; ++i) {
    std::string bytes = mutilate(originals[static_cast<std::size_t>(i) % 2], dice);
    try {
      io::parse_safetensors(std::as_bytes(std::span(bytes)), "memory");
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, iterations * 9 / 10);
}

TEST(Fuzz, CheckpointDescriptionsOfAnyKind) {
  test::TemporaryFolder folder;
  const long iterations = test::fuzz_iterations(2000) / 10;
  io::Checkpoint c;
  c.schedule = optim::ScheduleState{.type = "StepLR", .values = {{"gamma", {0.1}}}, .children = {}};
  c.optimizer = optim::OptimizerState{.type = "SGD", .groups = {{{{"lr", 1}}, {0}}}, .tensors = {}};
  io::save_checkpoint(folder / "c", c);
  std::string text = io::load_safetensors_metadata(folder / "c").at("rondo.checkpoint");
  Dice dice;
  long refused = 0;
  for (long i = 0; i < iterations; ++i) {
    try {  // with a correct checksum, so that the description itself is read
      io::save_safetensors(folder / "d", {}, {{"rondo.checkpoint", mutilate(text, dice)}});
      io::load_checkpoint(folder / "d");
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, iterations / 2);
}

}  // namespace
}  // namespace rondo
