#pragma once
// NcclTransport: messages between GPUs, for the algorithms of dist/collectives/algorithms.
//
// A message is put into the communication stream, and counts as complete at once: the next
// operation that uses its memory comes after it in the same stream. So an algorithm that polls its
// requests runs to the end on the host without waiting. It leaves the collective in the stream:
// messages and additions in the right order.
//
// NCCL's sends and receives are kernels that wait for their peer, one after the other. Two ranks
// that both send first would wait forever. Therefore everything posted between two calls of `test`
// goes into one NCCL group, whose members run concurrently: a ring's send to the right and its
// receive from the left. For this a pipeline's window must be 1.

#include <functional>
#include <memory>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/transports/nccl/nccl_api.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

/// `comm` must outlive it. `settle` returns when NCCL has completed its calls on the host, and
/// throws if that fails or takes too long.
std::unique_ptr<Transport> nccl_transport(const Nccl& nccl, ncclComm_t comm, int rank,
                                          int world_size, const cuda::Stream& stream,
                                          std::function<void()> settle);

/// GPU memory for chunks in flight, used only in `stream`.
std::unique_ptr<ChunkBuffer> device_scratch(const cuda::Stream& stream);

}  // namespace rondo::dist
