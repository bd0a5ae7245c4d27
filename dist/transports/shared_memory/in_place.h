#pragma once
// All-gather and reduce-scatter in memory from Communicator::allocate: each rank reads the other
// ranks' tensors in place.

#include <functional>
#include <memory>

#include "dist/collectives/reduce.h"
#include "dist/transports/shared_memory/all_reduce.h"
#include "dist/transports/shared_memory/meeting.h"

namespace rondo::dist {

/// The arguments of a collective, and the place of this rank's tensor, which the others read.
struct InPlace {
  SharedSpace& space;
  const SharedWindows& windows;
  Transport& transport;
  Signature signature;
  SharedPlace place;
  /// Makes the operation that runs instead if the tensors are not in shared memory, or are in
  /// different places of it.
  std::function<std::unique_ptr<Operation>()> otherwise;
};

/// out: a part of `bytes` bytes for each rank; this rank's part is already filled in. `place` is
/// out's.
std::unique_ptr<Operation> shared_all_gather(InPlace all, void* out, std::size_t bytes);

/// out: `count` elements, the reduction of this rank's part of every rank's tensor. `place` is the
/// tensor's.
std::unique_ptr<Operation> shared_reduce_scatter(InPlace all, void* out, std::int64_t count,
                                                 DType dtype, ReduceOp op);

}  // namespace rondo::dist
