#pragma once
// Algorithms that halve and double want a power of two of ranks. Where N is none, the first 2 E
// ranks, E = N - 2^floor(log2 N), pair up: the even one gives its data to the odd one, stands
// aside, and is told the result. The odd ones and the others are then a power of two, and are
// numbered anew.

#include <bit>
#include <functional>
#include <vector>

#include "dist/collectives/algorithms/rounds.h"

namespace rondo::dist {

class PowerOfTwo {
 public:
  PowerOfTwo(int rank, int world_size)
      : power_(static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)))),
        extra_(world_size - power_),
        rank_(rank) {}

  /// With whom this rank works: the one whose new number differs from its own in the lowest bit,
  /// then in the next, ….
  struct Partner {
    int rank;
    bool is_above;  // its number has the bit
  };
  std::vector<Partner> partners() const {
    const int number = rank_ < 2 * extra_ ? rank_ / 2 : rank_ - extra_;
    std::vector<Partner> all;
    for (int bit = 1; bit < power_; bit *= 2) {
      const int other = number ^ bit;
      all.push_back({.rank = other < extra_ ? 2 * other + 1 : other + extra_,
                     .is_above = (other & bit) != 0});
    }
    return all;
  }

  /// core(), the rounds of a rank that takes part, with the rounds before and after it in which
  /// `whole` comes from, and goes to, those that stand aside.
  std::vector<Round> with_the_others(Range whole,
                                     const std::function<std::vector<Round>()>& core) const {
    const bool is_paired = rank_ < 2 * extra_;
    if (is_paired && rank_ % 2 == 0)
      return {{.peer = rank_ + 1, .send = whole}, {.peer = rank_ + 1, .recv = whole}};
    std::vector<Round> rounds;
    if (is_paired)
      rounds.push_back({.peer = rank_ - 1, .recv = whole, .arrival = Round::theirs_first});
    for (const Round& round : core()) rounds.push_back(round);
    if (is_paired) rounds.push_back({.peer = rank_ - 1, .send = whole});
    return rounds;
  }

 private:
  int power_, extra_, rank_;
};

}  // namespace rondo::dist
