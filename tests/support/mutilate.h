#pragma once
// Damage for fuzz tests: valid bytes, changed at random, identically in every run.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tensor/random.h"

namespace rondo::test {

/// Draws the choices of one mutilation after another.
class Dice {
 public:
  std::size_t below(std::size_t n) { return uniform_below(philox_.word64(next_++), n); }

 private:
  Philox philox_{.seed = 20, .stream = 1};
  std::uint64_t next_ = 0;
};

/// RONDO_FUZZ_ITERATIONS, or `otherwise` if it is not set.
inline long fuzz_iterations(long otherwise) {
  const char* wanted = std::getenv("RONDO_FUZZ_ITERATIONS");
  return wanted ? std::atol(wanted) : otherwise;
}

/// One to four changes: a bit, a byte, a digit, a cut, a duplicated part, an inserted word of the
/// format.
inline std::string mutilate(std::string bytes, Dice& dice, const std::vector<std::string>& words) {
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
        bytes.insert(at, words[dice.below(words.size())]);
    }
  }
  return bytes;
}

}  // namespace rondo::test
