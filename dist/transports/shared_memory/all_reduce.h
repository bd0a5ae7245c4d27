#pragma once
// All-reduce in the shared memory of one machine. There are four cases.
//
// Up to slot_bytes: each rank's data is in its slot when the collective begins, and every rank adds
// all of it. One step.
//
// In memory from Communicator::allocate: rank r reads part r of every rank's tensor in place, and
// writes the sum to all of them. Two steps. Each rank reads S bytes and writes S bytes; nothing is
// copied.
//
// In other memory: each rank reads its part of the others' tensors from their private memory
// (peer_memory.h), adds, and then reads the sums of the other ranks. Three steps; 2 (n - 1) / n * S
// bytes are copied, once each.
//
// If ranks may not read each other's memory, or below 2 MiB (with more than four ranks: 512 KiB a
// part), where the kernel's copy takes longer: blocks pass through the stages. Each rank copies in
// the parts that the others add, adds its own part, writes the sums into the others' stages, where
// it has just read, and copies out of its own stage the sums that the others have written. This is
// the same number of bytes, but copied twice. One step for each block, since the next block is
// copied in while this one is added.
//
// Every element is added in the order of the ranks, either by one rank or by all in the same way.
// So the result is bit-identical on all ranks and in every run. bf16 and f16 are summed in f32 and
// rounded once.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/collectives/reduce.h"
#include "dist/transports/shared_memory/meeting.h"
#include "dist/transports/shared_memory/peer_memory.h"

namespace rondo::dist {

/// The memory that Communicator::allocate has handed out ("windows").
class SharedWindows {
 public:
  virtual ~SharedWindows() = default;
  /// The place of `bytes` bytes of this rank.
  virtual SharedPlace place_of(const void* data, std::size_t bytes) const = 0;
  /// The begin of rank r's section of a window.
  virtual char* section(std::int64_t window, int r) const = 0;
};

/// data: `count` elements, in one of the windows or elsewhere. All arguments must outlive the
/// operation.
std::unique_ptr<Operation> shared_all_reduce(SharedSpace& space, const SharedWindows& windows,
                                             const PeerMemory& peers, Transport& transport,
                                             ChunkBuffer& scratch, const Signature& signature,
                                             void* data, std::int64_t count, DType dtype,
                                             ReduceOp op);

}  // namespace rondo::dist
