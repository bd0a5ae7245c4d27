#pragma once
// Rounds: executes the algorithms that need few messages in sequence, as Pipeline executes rings.
// Such a collective is a short list of rounds. In each round a rank has one partner: it sends
// elements to the partner, receives elements from it, or both. The next round begins when this one
// is complete. Recursive doubling, recursive halving and trees are such lists.

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/collectives/algorithms/element_range.h"
#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

struct Round {
  int peer = 0;
  ElementRange send = {},
               recv = {};  // elements; an empty range is not sent, and both ranks agree on it
  /// What happens to the elements that arrive: they replace ours, or ours become (ours op theirs)
  /// or (theirs op ours). The results of the last two differ only for the minimum and maximum of -0
  /// and +0, and in which of two NaNs is returned.
  enum Arrival : std::uint8_t { replace, ours_first, theirs_first } arrival = replace;
  /// The divisor of the combined elements: an average divides in its last addition.
  int divisor = 1;
};

/// The ranges of the rounds are elements of `data`.
std::unique_ptr<Operation> in_rounds(Transport& transport, ChunkBuffer& scratch, void* data,
                                     DType dtype, ReduceOp op, std::vector<Round> rounds, int tag);

}  // namespace rondo::dist
