#pragma once
// All-gather and reduce-scatter in memory that Communicator::allocate has shared: each rank reads
// what it wants where the others have it.

#include <functional>
#include <memory>

#include "dist/collectives/reduce.h"
#include "dist/transports/shared_memory/all_reduce.h"
#include "dist/transports/shared_memory/meeting.h"

namespace rondo::dist {

/// What all ranks of a collective share, and where one's tensor lies that others read.
struct InPlace {
  SharedSpace& space;
  const SharedWindows& windows;
  Transport& transport;
  Signature signature;
  SharedPlace place;
  /// What is done instead where the tensors lie in no shared memory, or in different places of it.
  std::function<std::unique_ptr<Operation>()> otherwise;
};

/// out: a part of `bytes` bytes for each rank, this rank's already in place; `place` is out's.
std::unique_ptr<Operation> shared_all_gather(InPlace all, void* out, std::size_t bytes);

/// out: `count` elements, the reduction of this rank's part of every rank's tensor; `place` is the
/// tensor's.
std::unique_ptr<Operation> shared_reduce_scatter(InPlace all, void* out, std::int64_t count,
                                                 DType dtype, ReduceOp op);

}  // namespace rondo::dist
