#ifdef RONDO_HAS_CUDA

#include "support/simulated_gpu.h"

#include <array>
#include <cstdlib>
#include <memory>

#include "support/host_cublaslt.h"
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

class SimulatedGpu final : public cuda::CudaBackend {
 public:
  explicit SimulatedGpu(int device) : CudaBackend(device), allocator_(device) {}
  Allocator& allocator() override { return allocator_; }

 private:
  HostAllocator allocator_;
};

std::array<std::unique_ptr<SimulatedGpu>, 2>& gpus() {
  // Kept: tensors may outlive the scope that made them.
  static auto* made =
      new std::array{std::make_unique<SimulatedGpu>(0), std::make_unique<SimulatedGpu>(1)};
  return *made;
}

}  // namespace

SimulatedGpus::SimulatedGpus() {
  cuda::simulate(true);
  cuda::set_cublaslt(&host_cublaslt());
  cuda::set_cudnn(&host_cudnn());
  for (int i = 0; i < 2; ++i)
    set_backend(Device::cuda(i), gpus()[static_cast<std::size_t>(i)].get());
}

SimulatedGpus::~SimulatedGpus() {
  for (int i = 0; i < 2; ++i) set_backend(Device::cuda(i), nullptr);
  cuda::set_cublaslt(nullptr);
  cuda::set_cudnn(nullptr);
  cuda::simulate(false);
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
