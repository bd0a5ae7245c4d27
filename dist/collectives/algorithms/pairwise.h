#pragma once
// Pairwise all-reduce and reduce-scatter: 16-bit floats are summed in f32, and travel in 16 bits.

#include <cstddef>
#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

struct PairwiseOptions {
  int tag = 0;
  // The largest message.
  std::size_t chunk_bytes = 256 << 10;
};

/// In place over `count` elements at `data`; equal in every bit on all ranks, and to what
/// direct_all_reduce gives: added up in the order of ranks, bf16 and f16 in f32, rounded once.
std::unique_ptr<Operation> pairwise_all_reduce(Transport& transport, Scratch& scratch, void* data,
                                               std::int64_t count, DType dtype, ReduceOp op,
                                               PairwiseOptions options = {});

/// `data` holds N parts of `part_count` elements and stays as it is; `out` becomes the reduction of
/// all ranks' part r, on rank r, added up as above. `out` shares no memory with `data`.
std::unique_ptr<Operation> pairwise_reduce_scatter(Transport& transport, Scratch& scratch,
                                                   const void* data, void* out,
                                                   std::int64_t part_count, DType dtype,
                                                   ReduceOp op, PairwiseOptions options = {});

}  // namespace rondo::dist
