#pragma once
// Pairwise all-reduce and reduce-scatter: 16-bit floats are summed in f32, but sent in 16 bits.

#include <cstddef>
#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

struct PairwiseOptions {
  int tag = 0;
  // The largest message.
  std::size_t chunk_bytes = 256 << 10;
};

/// In place over `count` elements at `data`. Bit-identical on all ranks, and to the result of
/// direct_all_reduce: added in the order of ranks, bf16 and f16 in f32, rounded once.
std::unique_ptr<Operation> pairwise_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                               void* data, std::int64_t count, DType dtype,
                                               ReduceOp op, PairwiseOptions options = {});

/// `data` holds N parts of `part_count` elements and does not change. On rank r `out` becomes the
/// reduction of all ranks' part r, added in the same way. `out` must not overlap `data`.
std::unique_ptr<Operation> pairwise_reduce_scatter(Transport& transport, ChunkBuffer& scratch,
                                                   const void* data, void* out,
                                                   std::int64_t part_count, DType dtype,
                                                   ReduceOp op, PairwiseOptions options = {});

}  // namespace rondo::dist
