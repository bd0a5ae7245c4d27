#pragma once
// All-reduce by recursive doubling, for data so small that what costs is the number of messages one
// after the other: log2 N of them, where a ring has 2 (N - 1).

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; equal in every bit on all ranks.
std::unique_ptr<Operation> recursive_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                                         void* data, std::int64_t count,
                                                         DType dtype, ReduceOp op, int tag = 0);

}  // namespace rondo::dist
