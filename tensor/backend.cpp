#include "tensor/backend.h"

#include <utility>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/cpu_backend.h"

namespace rondo {
namespace {

void require_available(Device device) {
  require<DeviceError>(device.is_cpu(), "device ", device,
                       " is not available: this rondo was built without CUDA");
}

Backend*& cpu_backend() {
  static Backend* installed = &cpu::CpuBackend::instance();
  return installed;
}

}  // namespace

Backend& backend(Device device) {
  require_available(device);
  return *cpu_backend();
}

Backend& set_backend(Device device, Backend& replacement) {
  require_available(device);
  return *std::exchange(cpu_backend(), &replacement);
}

Allocator& allocator_of(Device device) {
  require_available(device);
  return cpu::CachingAllocator::instance();
}

Tensor apply_unary(UnaryOp op, const Tensor& x, OpParams params) {
  Tensor y = Tensor::empty_like(x);
  backend(x).unary(op, x, y, params);
  return y;
}

}  // namespace rondo
