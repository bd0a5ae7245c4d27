#include "tensor/cuda/cuda_backend.h"

#include <map>
#include <mutex>

#include "tensor/cuda/allocator.h"

namespace rondo::cuda {

Allocator& CudaBackend::allocator() { return CachingAllocator::of(device_); }

CudaBackend& backend_of(int device) {
  static auto* mutex = new std::mutex;
  static auto* backends = new std::map<int, CudaBackend>;
  std::lock_guard lock(*mutex);
  auto found = backends->find(device);
  if (found == backends->end()) {
    require_device(device);
    found = backends->try_emplace(device, device).first;
  }
  return found->second;
}

}  // namespace rondo::cuda
