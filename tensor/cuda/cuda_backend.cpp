#include "tensor/cuda/cuda_backend.h"

#include "tensor/cuda/allocator.h"

namespace rondo::cuda {

Allocator& CudaBackend::allocator() { return CachingAllocator::of(device_); }

}  // namespace rondo::cuda
