#pragma once
// What the allocator and the streams must know while a graph is captured (tensor/cuda_graph.h).

#include "tensor/cuda/block_pool.h"
#include "tensor/cuda_graph.h"

namespace rondo::cuda {

/// Where the calling thread's allocations come from; null while it captures nothing.
BlockPool* capture_memory();

}  // namespace rondo::cuda
