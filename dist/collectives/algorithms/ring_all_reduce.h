#pragma once
// Ring all-reduce: afterwards every rank holds the element-wise sum (or avg, min, max, prod, band,
// bor) over all ranks, bit for bit the same on each. The lesson is in ring_all_reduce.cpp;
// examples/03_ring.cpp walks through it on four ranks.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"

namespace rondo::dist {

struct RingOptions {
  int tag = 0;
  // The largest message. Large enough that posting it costs little beside moving it, small enough
  // that a chunk and its partner stay in the core's cache while they are added.
  std::size_t chunk_bytes = 512 << 10;
  // Chunks a segment is cut into, so that a step's first chunk travels on while its others arrive.
  int chunks_per_segment = 4;
  int window = 2;  // Note [Pipelining]
  // What an average is divided by; 0: the number of ranks.
  int divisor = 0;
};

/// In place over `count` elements at `data`.
std::unique_ptr<Operation> ring_all_reduce(Transport& transport, Scratch& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           RingOptions options = {});

/// The list of hops itself, for a reader or a test that wants to see it.
std::unique_ptr<Schedule> ring_all_reduce_schedule(int rank, int world_size, void* data,
                                                   std::int64_t count, DType dtype, ReduceOp op,
                                                   Arithmetic& arithmetic,
                                                   RingOptions options = {});

}  // namespace rondo::dist
