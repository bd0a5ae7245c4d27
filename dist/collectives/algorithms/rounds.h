#pragma once
// Rounds: the machine under the algorithms that need few messages one after the other, as Pipeline
// is the one under rings. Such a collective is a short list of rounds; in each, a rank has one
// partner, to whom it sends some of its elements, from whom it hears some, or both. The next round
// begins when this one is over. Recursive doubling, recursive halving and trees are nothing but
// such lists.

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/collectives/algorithms/range.h"

namespace rondo::dist {

struct Round {
  int peer = 0;
  Range send = {}, recv = {};  // elements; nothing is sent where both agree on none
  /// What becomes of the elements that arrive: they replace ours, or ours become ours op theirs, or
  /// theirs op ours. The two differ in bits only for the minimum and maximum of -0 and +0, and in
  /// which of two NaNs comes out.
  enum Arrival : std::uint8_t { replace, ours_first, theirs_first } arrival = replace;
  /// What the combined elements are divided by: of an average, with the last addition.
  int divisor = 1;
};

/// `data` holds the elements that the rounds speak of.
std::unique_ptr<Operation> in_rounds(Transport& transport, Scratch& scratch, void* data,
                                     DType dtype, ReduceOp op, std::vector<Round> rounds, int tag);

}  // namespace rondo::dist
