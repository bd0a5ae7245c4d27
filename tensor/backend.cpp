#include "tensor/backend.h"

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/cpu_backend.h"

namespace rondo {

Backend& backend(Device device) {
  require<DeviceError>(device.is_cpu(), "device ", device,
                       " is not available: this rondo was built without CUDA");
  return cpu::CpuBackend::instance();
}

Allocator& allocator_of(Device device) {
  require<DeviceError>(device.is_cpu(), "device ", device,
                       " is not available: this rondo was built without CUDA");
  return cpu::CachingAllocator::instance();
}

}  // namespace rondo
