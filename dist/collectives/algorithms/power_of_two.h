#pragma once
// Algorithms that halve and double need a power of two of ranks. If N is not a power of two, the
// first 2 E ranks, E = N - 2^floor(log2 N), form pairs. The even rank of a pair gives its data to
// the odd one, takes no part in the algorithm, and receives the result at the end. The odd ranks of
// the pairs and all remaining ranks are then a power of two, and get new numbers.

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

  /// The partners of this rank: first the rank whose new number differs from its own in the lowest
  /// bit, then in the next bit, and so on.
  struct Partner {
    int rank;
    bool is_above;  // the partner's number has the bit set
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

  /// The rounds of a rank that takes part, which core() returns. Where this rank is paired, a round
  /// before them receives `whole` from its partner, and one after them returns the result to it.
  /// For the partner: only these two rounds.
  std::vector<Round> with_the_others(ElementRange whole,
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
