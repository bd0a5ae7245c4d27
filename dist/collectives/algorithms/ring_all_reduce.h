#pragma once
// Ring all-reduce: afterwards every rank holds the element-wise sum (or avg, min, max, prod, band,
// bor) over all ranks, bit-identical on all of them. ring_all_reduce.cpp explains the algorithm;
// examples/03_ring.cpp prints its steps on four ranks.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

struct RingOptions {
  int tag = 0;
  // The largest message. It must be large enough that the cost of posting it is small compared to
  // the transfer. It must be small enough that the chunk and the local values fit into the core's
  // cache while they are added.
  std::size_t chunk_bytes = 512 << 10;
  // How many chunks a segment is cut into. A step's first chunk can be sent on while the others
  // arrive.
  int chunks_per_segment = 4;
  int window = 2;  // Note [Pipelining]
  // The divisor of an average; 0: the number of ranks.
  int divisor = 0;
};

/// In place over `count` elements at `data`.
std::unique_ptr<Operation> ring_all_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           RingOptions options = {});

/// The list of hops itself, for readers and tests.
std::unique_ptr<Schedule> ring_all_reduce_schedule(int rank, int world_size, void* data,
                                                   std::int64_t count, DType dtype, ReduceOp op,
                                                   Arithmetic& arithmetic,
                                                   RingOptions options = {});

}  // namespace rondo::dist
