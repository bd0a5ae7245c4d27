#pragma once
// The other collectives, each a schedule on the same Pipeline as the ring all-reduce, and a
// barrier.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/collectives/algorithms/ring_all_reduce.h"

namespace rondo::dist {

/// `bytes` bytes at `data` of rank `root` to all ranks, along the chain root, root + 1, …: each
/// chunk is passed on as soon as it is there, so N ranks take hardly longer than two.
std::unique_ptr<Operation> chain_broadcast(Transport& transport, Scratch& scratch, void* data,
                                           std::size_t bytes, int root, RingOptions options = {});

/// `data` holds N parts of `part_bytes`; rank r brings part r in its place, and afterwards all
/// ranks hold all parts. The second half of a ring all-reduce.
std::unique_ptr<Operation> ring_all_gather(Transport& transport, Scratch& scratch, void* data,
                                           std::size_t part_bytes, RingOptions options = {});

/// `data` holds N parts of `part_count` elements; afterwards part r of rank r is the reduction over
/// all ranks, and the other parts are spent. The first half of a ring all-reduce.
std::unique_ptr<Operation> ring_reduce_scatter(Transport& transport, Scratch& scratch, void* data,
                                               std::int64_t part_count, DType dtype, ReduceOp op,
                                               RingOptions options = {});

/// `data` of rank `root` becomes the reduction over all ranks, along the chain root + 1, root + 2,
/// …, root: each adds its chunk to what comes and passes it on. The data of the others is spent.
std::unique_ptr<Operation> chain_reduce(Transport& transport, Scratch& scratch, void* data,
                                        std::int64_t count, DType dtype, ReduceOp op, int root,
                                        RingOptions options = {});

/// Nobody is done before everybody has come. Dissemination (Hensgen, Finkel and Manber 1988): in
/// round k, rank r tells r + 2^k and hears r - 2^k; after ceil(log2 N) rounds each has heard, at
/// second hand, of all.
std::unique_ptr<Operation> barrier(Transport& transport, int tag);

}  // namespace rondo::dist
