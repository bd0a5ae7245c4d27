#pragma once
// All-reduce by recursive halving and doubling, for medium sizes: 2 log2 N messages in sequence,
// and no more bytes than a ring sends.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; bit-identical on all ranks.
std::unique_ptr<Operation> halving_doubling_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                                       void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, int tag = 0);

}  // namespace rondo::dist
