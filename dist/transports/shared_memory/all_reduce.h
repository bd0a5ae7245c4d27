#pragma once
// All-reduce in the memory of one machine.
//
// Up to slot_bytes: each rank's data is in its slot as the collective begins; every rank adds all
// of them up itself. One step.
//
// In memory from Communicator::allocate: rank r reads part r of every rank's tensor where it lies,
// and writes the sum over all of them. Two steps; each rank reads S bytes and writes S, and nothing
// is copied.
//
// Anywhere else each rank reads what it is to add up out of the others' private memory
// (peer_memory.h), adds it up, and reads the sums that others have formed: 2 (n - 1) / n * S
// copied, once each, in three steps.
//
// Where ranks may not read each other, and below 2 MiB (of more than four ranks: 512 KiB a part),
// where the kernel's reading takes longer, blocks pass through the stages. Each rank copies in what
// others are to add up, adds up its own part, writes the sums into the others' stages, where it has
// just read, and copies out of its own stage what they have written there: as many bytes, but
// copied twice. One step a block, since the next is copied in while this one is added up.
//
// Every element is added up in the order of the ranks, by one of them or by all alike, so all get
// the same bits, and the same in every run. bf16 and f16 are summed in f32 and rounded once.

#include <memory>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/collectives/reduce.h"
#include "dist/transports/shared_memory/meeting.h"
#include "dist/transports/shared_memory/peer_memory.h"

namespace rondo::dist {

/// The windows of memory from Communicator::allocate.
class SharedWindows {
 public:
  virtual ~SharedWindows() = default;
  /// Where `bytes` bytes of this rank lie.
  virtual SharedPlace place_of(const void* data, std::size_t bytes) const = 0;
  /// Where rank r's part of a window begins.
  virtual char* section(std::int64_t window, int r) const = 0;
};

/// data: `count` elements, in one of the windows or not. All must outlive the operation.
std::unique_ptr<Operation> shared_all_reduce(SharedSpace& space, const SharedWindows& windows,
                                             const PeerMemory& peers, Transport& transport,
                                             Scratch& scratch, const Signature& signature,
                                             void* data, std::int64_t count, DType dtype,
                                             ReduceOp op);

}  // namespace rondo::dist
