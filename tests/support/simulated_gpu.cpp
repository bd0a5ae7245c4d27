#ifdef RONDO_HAS_CUDA

#include "support/simulated_gpu.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "support/host_cublaslt.h"
#include "tensor/cpu/cpu_backend.h"
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

/// The same elements as a tensor of the CPU.
Tensor host(const Tensor& x) {
  if (!x.defined()) return x;
  if (x.device().is_cpu()) throw std::logic_error("a tensor of the CPU in a kernel of the GPU");
  auto keep = x.storage();
  auto storage = std::make_shared<Storage>(keep->data(), keep->bytes(), Device::cpu(), [keep] {});
  return Tensor::over(storage, x.storage_offset(), x.shape(), x.strides(), x.dtype());
}
class SimulatedGpu final : public cuda::CudaBackend {
 public:
  explicit SimulatedGpu(int device) : CudaBackend(device), allocator_(device) {}
  Allocator& allocator() override { return allocator_; }

  MemoryFormat conv2d_format(DType dtype) const override { return cpu_.conv2d_format(dtype); }
  void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
              const Conv2dParams& params) override {
    cpu_.conv2d(host(x), host(w), host(bias), host(y), params);
  }
  void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                             const Conv2dParams& params) override {
    cpu_.conv2d_backward_input(host(dy), host(w), host(dx), params);
  }
  void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                              const Tensor& dbias, const Conv2dParams& params) override {
    cpu_.conv2d_backward_weight(host(dy), host(x), host(dw), host(dbias), params);
  }

 private:
  HostAllocator allocator_;
  cpu::CpuBackend& cpu_ = cpu::CpuBackend::instance();
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
  for (int i = 0; i < 2; ++i)
    set_backend(Device::cuda(i), gpus()[static_cast<std::size_t>(i)].get());
}

SimulatedGpus::~SimulatedGpus() {
  for (int i = 0; i < 2; ++i) set_backend(Device::cuda(i), nullptr);
  cuda::set_cublaslt(nullptr);
  cuda::simulate(false);
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
