#pragma once
// Direct all-reduce, for tiny messages.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

/// In place over `count` elements at `data`; bit-identical on all ranks: each rank adds in the
/// order of ranks, bf16 and f16 in f32, rounded once.
std::unique_ptr<Operation> direct_all_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                             std::int64_t count, DType dtype, ReduceOp op,
                                             int tag = 0);

}  // namespace rondo::dist
