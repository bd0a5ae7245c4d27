// Throws mutilated files at the readers: whatever the bytes, tensors or an IoError come out. Run it
// under the sanitizers; RONDO_FUZZ_ITERATIONS says how long.

#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <span>

#include "io/checkpoint.h"
#include "support/files.h"
#include "support/hashed.h"
#include "tensor/random.h"

namespace rondo {
namespace {

/// Draws the choices of one mutilation after the other.
class Dice {
 public:
  std::size_t below(std::size_t n) { return uniform_below(philox_.word64(next_++), n); }

 private:
  Philox philox_{.seed = 20, .stream = 1};
  std::uint64_t next_ = 0;
};

/// One to four changes: a bit, a byte, a digit, a cut, a part doubled, a word of the format put in.
std::string mutilate(std::string bytes, Dice& dice) {
  static const char* const words[] = {"[",
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
  for (std::size_t changes = 1 + dice.below(4); changes > 0 && !bytes.empty(); --changes) {
    std::size_t at = dice.below(bytes.size());
    switch (dice.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << dice.below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(dice.below(256));
        break;
      case 2:
        bytes[at] = static_cast<char>('0' + dice.below(10));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, dice.below(40)));
        break;
      default:
        bytes.insert(at, words[dice.below(std::size(words))]);
    }
  }
  // Half of them get a length that fits, so that the parser sees more than the first check.
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
  const char* wanted = std::getenv("RONDO_FUZZ_ITERATIONS");
  long iterations = wanted ? std::atol(wanted) : 3000;
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
  const char* wanted = std::getenv("RONDO_FUZZ_ITERATIONS");
  long iterations = wanted ? std::atol(wanted) / 10 : 200;
  io::Checkpoint c;
  c.schedule = optim::ScheduleState{.type = "StepLR", .values = {{"gamma", {0.1}}}, .children = {}};
  c.optimizer = optim::OptimizerState{.type = "SGD", .groups = {{{{"lr", 1}}, {0}}}, .tensors = {}};
  io::save_checkpoint(folder / "c", c);
  std::string text = io::load_safetensors_metadata(folder / "c").at("rondo.checkpoint");
  Dice dice;
  long refused = 0;
  for (long i = 0; i < iterations; ++i) {
    try {  // with a right checksum, so that the description itself is what is read
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
