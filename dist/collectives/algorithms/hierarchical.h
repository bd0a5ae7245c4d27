#pragma once
// Hierarchical all-reduce: inside each node, then between nodes, for machines with several ranks
// each, whose ranks are nearer to each other than to those of other machines.

#include <memory>
#include <vector>

#include "dist/collectives/algorithms/ring_all_reduce.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; equal in every bit on all ranks. node_of[r]: a number
/// that tells rank r's node; the same list on all ranks.
std::unique_ptr<Operation> hierarchical_all_reduce(Transport& transport, Scratch& scratch,
                                                   void* data, std::int64_t count, DType dtype,
                                                   ReduceOp op, const std::vector<int>& node_of,
                                                   RingOptions options = {});

}  // namespace rondo::dist
