#ifdef RONDO_HAS_CUDA

#include "support/simulated_gpu.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "support/device_memory.h"
#include "support/host_cublaslt.h"
#include "support/host_cudart.h"
#include "support/host_cudnn.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/simulation.h"
#include "tensor/cuda/stream.h"

namespace rondo::test {
namespace {

/// Blocks of exact sizes. A block is freed when the stream for which it was allocated has finished
/// its work.
class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(int device) : device_(device) {}
  Device device() const override { return Device::cuda(device_); }
  void* allocate(std::size_t bytes) override {
    require<OutOfMemoryError>(!is_out_of_memory(), "cuda:", device_, " is out of memory: cannot ",
                              "allocate ", bytes, " bytes");
    void* data = allocate_device_memory(bytes);
    std::lock_guard lock(mutex_);
    streams_[data] = cuda::current_stream(device_).get();
    return data;
  }
  void deallocate(void* data, std::size_t) noexcept override {
    std::unique_lock lock(mutex_);
    const cudaStream_t stream = streams_.extract(data).mapped();
    lock.unlock();
    free_when_reached(device_, stream, data);
  }

 private:
  int device_;
  std::mutex mutex_;
  std::map<void*, cudaStream_t> streams_;
};

constinit cuda::HostKernels host_kernels = cuda::HostKernels::loops;

class ExactGpu final : public cuda::CudaBackend {
 public:
  explicit ExactGpu(int device) : CudaBackend(device), index_(device) {}
  Allocator& allocator() override { return host_allocator(index_); }

 private:
  int index_;
};

}  // namespace

Allocator& host_allocator(int device) {
  // Never freed: tensors may outlive the scope that made them.
  static auto* made = [] {
    auto* all = new std::vector<std::unique_ptr<HostAllocator>>;
    for (int i = 0; i < host_gpus; ++i) all->push_back(std::make_unique<HostAllocator>(i));
    return all;
  }();
  return *(*made)[static_cast<std::size_t>(device)];
}

void set_host_kernels(cuda::HostKernels kernels) { host_kernels = kernels; }

SimulatedGpus::SimulatedGpus(Memory memory) {
  const char* order = std::getenv("RONDO_HOST_ORDER");
  if (order != nullptr)
    cuda::set_host_order(std::string_view(order) == "backwards" ? cuda::HostOrder::backwards
                                                                : cuda::HostOrder::shuffled);
  cuda::simulate(launch, host_kernels);
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
