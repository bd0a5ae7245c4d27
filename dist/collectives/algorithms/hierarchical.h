#pragma once
// Hierarchical all-reduce: first inside each node, then between nodes. For machines with several
// ranks each, whose ranks are closer to each other than to ranks of other machines.

#include <memory>
#include <vector>

#include "dist/collectives/algorithms/ring_all_reduce.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; bit-identical on all ranks. node_of[r] is the number
/// of rank r's node; the list must be equal on all ranks.
std::unique_ptr<Operation> hierarchical_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                                   void* data, std::int64_t count, DType dtype,
                                                   ReduceOp op, const std::vector<int>& node_of,
                                                   RingOptions options = {});

}  // namespace rondo::dist
