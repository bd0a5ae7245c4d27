#pragma once
// NcclTransport: messages between GPUs, for the algorithms of dist/collectives/algorithms.
//
// A message is put into the communication stream, and counts as complete as soon as it is there:
// whatever uses its memory next is put into the same stream, behind it. So an algorithm that polls
// its requests runs through at once on the host, and what it leaves behind in the stream is the
// collective: messages and additions in the right order.
//
// NCCL's sends and receives wait for each other, one kernel after the other. Two ranks that both
// sent first would wait for ever, so what was posted between two calls of `test` goes into one
// group, whose members run side by side: a ring's send to the right and receive from the left. For
// that, a pipeline's window must be 1.

#include <functional>
#include <memory>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/transports/nccl/nccl_api.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

/// `comm` must outlive it. `settle` returns when NCCL has done on the host what it was asked for,
/// and throws when that fails or takes too long.
std::unique_ptr<Transport> nccl_transport(const Nccl& nccl, ncclComm_t comm, int rank,
                                          int world_size, const cuda::Stream& stream,
                                          std::function<void()> settle);

/// Memory of a GPU for chunks in flight, used in `stream` alone.
std::unique_ptr<Scratch> device_scratch(const cuda::Stream& stream);

}  // namespace rondo::dist
