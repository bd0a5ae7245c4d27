#pragma once
// The other collectives, each with a Schedule for the same Pipeline as the ring all-reduce, and a
// barrier.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/collectives/algorithms/ring_all_reduce.h"

namespace rondo::dist {

/// Sends `bytes` bytes at `data` of rank `root` to all ranks, along the chain root, root + 1, ….
/// Each rank passes a chunk on as soon as it has arrived, so N ranks take hardly longer than two.
std::unique_ptr<Operation> chain_broadcast(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::size_t bytes, int root, RingOptions options = {});

/// `data` holds N parts of `part_bytes` bytes. Before, rank r has filled in part r; afterwards all
/// ranks hold all parts. This is the second half of a ring all-reduce.
std::unique_ptr<Operation> ring_all_gather(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::size_t part_bytes, RingOptions options = {});

/// `data` holds N parts of `part_count` elements. Afterwards part r of rank r is the reduction over
/// all ranks; the other parts hold partial sums. This is the first half of a ring all-reduce.
std::unique_ptr<Operation> ring_reduce_scatter(Transport& transport, ChunkBuffer& scratch,
                                               void* data, std::int64_t part_count, DType dtype,
                                               ReduceOp op, RingOptions options = {});

/// `data` of rank `root` becomes the reduction over all ranks, along the chain root + 1, root + 2,
/// …, root. Each rank adds its chunk to the one that arrives and passes the sum on. On the other
/// ranks `data` is overwritten.
std::unique_ptr<Operation> chain_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                        std::int64_t count, DType dtype, ReduceOp op, int root,
                                        RingOptions options = {});

/// Completes when all ranks have called it. Dissemination barrier (Hensgen, Finkel and Manber
/// 1988): in round k, rank r sends to rank r + 2^k and receives from rank r - 2^k. After ceil(log2
/// N) rounds each rank knows, directly or indirectly, that all ranks have arrived.
std::unique_ptr<Operation> barrier(Transport& transport, int tag);

}  // namespace rondo::dist
