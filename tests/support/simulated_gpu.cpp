#ifdef RONDO_HAS_CUDA

#include "support/simulated_gpu.h"

#include <array>
#include <cstdlib>

#include "support/host_cublaslt.h"
#include "support/host_cudart.h"
#include "support/host_cudnn.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/simulation.h"

namespace rondo::test {
namespace {

/// Host memory that calls itself a GPU's.
class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(int device) : device_(device) {}
  Device device() const override { return Device::cuda(device_); }
  void* allocate(std::size_t bytes) override {
    return std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  }
  void deallocate(void* data, std::size_t) noexcept override { std::free(data); }

 private:
  int device_;
};

class ExactGpu final : public cuda::CudaBackend {
 public:
  explicit ExactGpu(int device) : CudaBackend(device), index_(device) {}
  Allocator& allocator() override { return host_allocator(index_); }

 private:
  int index_;
};

}  // namespace

Allocator& host_allocator(int device) {
  // Kept: tensors may outlive the scope that made them.
  static auto* made = new std::array<HostAllocator, host_gpus>{HostAllocator(0), HostAllocator(1),
                                                               HostAllocator(2), HostAllocator(3)};
  return (*made)[static_cast<std::size_t>(device)];
}

SimulatedGpus::SimulatedGpus(Memory memory) {
  cuda::simulate(launch);
  cuda::set_cudart(&host_cudart());
  cuda::set_cublaslt(&host_cublaslt());
  cuda::set_cudnn(&host_cudnn());
  for (int i = 0; i < host_gpus; ++i) {
    if (memory == Memory::exact)
      set_backend(Device::cuda(i), new ExactGpu(i));
    else
      set_backend(Device::cuda(i), new cuda::CudaBackend(i));
  }
}

SimulatedGpus::~SimulatedGpus() {
  for (int i = 0; i < host_gpus; ++i) delete set_backend(Device::cuda(i), nullptr);
  cuda::set_cublaslt(nullptr);
  cuda::set_cudnn(nullptr);
  cuda::set_cudart(nullptr);
  cuda::simulate(nullptr);
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
