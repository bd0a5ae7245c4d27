#pragma once
// Broadcast, reduce and all-reduce along a binomial tree, for sizes so small that the number of
// messages in sequence determines the time: log2 N, where a chain needs N - 1.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// Sends `bytes` bytes at `data` of rank `root` to all ranks.
std::unique_ptr<Operation> tree_broadcast(Transport& transport, ChunkBuffer& scratch, void* data,
                                          std::size_t bytes, int root, int tag = 0);

/// `data` of rank `root` becomes the reduction over all ranks; on the other ranks it is
/// overwritten.
std::unique_ptr<Operation> tree_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                       std::int64_t count, DType dtype, ReduceOp op, int root,
                                       int tag = 0);

/// A reduction to rank 0, then a broadcast from it; bit-identical on all ranks.
std::unique_ptr<Operation> tree_all_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           int tag = 0);

}  // namespace rondo::dist
