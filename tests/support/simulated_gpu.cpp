#ifdef RONDO_HAS_CUDA

#include "support/simulated_gpu.h"

#include <map>
#include <memory>
#include <mutex>
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

/// Host memory with the device of a GPU. It is freed when the stream for which it was allocated has
/// finished its work, which for a default stream is at once.
class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(int device) : device_(device) {}
  Device device() const override { return Device::cuda(device_); }
  void* allocate(std::size_t bytes) override {
    void* data = allocate_device_memory(bytes);
    if (cudaStream_t stream = cuda::current_stream(device_).get(); stream != nullptr) {
      std::lock_guard lock(mutex_);
      streams_[data] = stream;
    }
    return data;
  }
  void deallocate(void* data, std::size_t) noexcept override {
    cudaStream_t stream = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (auto found = streams_.find(data); found != streams_.end()) {
        stream = found->second;
        streams_.erase(found);
      }
    }
    if (stream == nullptr) return free_device_memory(data);
    submit(stream, [data] {
      free_device_memory(data);
      return true;
    });
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
