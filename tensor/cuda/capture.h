#pragma once
// What the allocator and the streams need to know during a graph's capture (tensor/cuda_graph.h).

#include "tensor/cuda/block_pool.h"
#include "tensor/cuda_graph.h"

namespace rondo::cuda {

/// The pool for the calling thread's allocations on a device during its capture; null if the thread
/// does not capture. Throws CudaError if it captures another device.
BlockPool* capture_memory(int device);

/// Whether any thread captures a graph.
bool captures_underway();

/// During a capture of the calling thread: keeps an object alive as long as the graph, such as a
/// communicator whose collectives are in the graph.
void keep_with_capture(std::shared_ptr<void> kept);

}  // namespace rondo::cuda
