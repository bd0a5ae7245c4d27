#pragma once
// All-reduce by recursive doubling, for sizes so small that the number of messages in sequence
// determines the time: log2 N of them, where a ring needs 2 (N - 1).

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; bit-identical on all ranks.
std::unique_ptr<Operation> recursive_doubling_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                                         void* data, std::int64_t count,
                                                         DType dtype, ReduceOp op, int tag = 0);

}  // namespace rondo::dist
