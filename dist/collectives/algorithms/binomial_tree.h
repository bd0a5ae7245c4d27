#pragma once
// Broadcast, reduce and all-reduce along a binomial tree, for data so small that the number of
// messages one after the other is what costs: log2 N, where a chain has N - 1.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// `bytes` bytes at `data` of rank `root` to all ranks.
std::unique_ptr<Operation> tree_broadcast(Transport& transport, Scratch& scratch, void* data,
                                          std::size_t bytes, int root, int tag = 0);

/// `data` of rank `root` becomes the reduction over all ranks; the data of the others is spent.
std::unique_ptr<Operation> tree_reduce(Transport& transport, Scratch& scratch, void* data,
                                       std::int64_t count, DType dtype, ReduceOp op, int root,
                                       int tag = 0);

/// A reduction to rank 0 and a broadcast from it: equal in every bit on all ranks.
std::unique_ptr<Operation> tree_all_reduce(Transport& transport, Scratch& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           int tag = 0);

}  // namespace rondo::dist
