#pragma once
// All-reduce by recursive halving and doubling, for data of middling size: 2 log2 N messages one
// after the other, and no byte more than a ring sends.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; equal in every bit on all ranks.
std::unique_ptr<Operation> halving_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                                       void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, int tag = 0);

}  // namespace rondo::dist
