#pragma once
// What the allocator and the streams must know while a graph is captured (tensor/cuda_graph.h).

#include "tensor/cuda/block_pool.h"
#include "tensor/cuda_graph.h"

namespace rondo::cuda {

/// Where the calling thread's allocations on a device come from; null while it captures nothing.
/// Throws CudaError while it captures another device.
BlockPool* capture_memory(int device);

/// Whether any thread captures.
bool captures_underway();

/// While the calling thread captures: what must live as long as the graph, such as a communicator
/// whose collectives it holds.
void keep_with_capture(std::shared_ptr<void> kept);

}  // namespace rondo::cuda
