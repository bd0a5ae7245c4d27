#pragma once
// GPUs that exist in a test alone: tensors of Device::cuda(0) lie in host memory, rondo's own CUDA
// kernels run on the host (Note [Kernels on the host] in tensor/cuda/simulation.h), and the runtime
// and NVIDIA's libraries are doubles that compute there (host_cudart.h, host_cublaslt.h,
// host_cudnn.h). So the kernels' arithmetic and indexing are compared with the CPU's on every
// machine, under AddressSanitizer too.

#include "tensor/allocator.h"

namespace rondo::test {

/// While it lives, Device::cuda(0) to Device::cuda(3) are such GPUs.
class SimulatedGpus {
 public:
  /// Who gives out the GPUs' memory: `exact` blocks, so that AddressSanitizer sees what is read or
  /// written beside them and after their end, or rondo's `caching` allocator.
  enum class Memory { exact, caching };
  explicit SimulatedGpus(Memory memory = Memory::exact);
  ~SimulatedGpus();
  SimulatedGpus(const SimulatedGpus&) = delete;
  SimulatedGpus& operator=(const SimulatedGpus&) = delete;
};

/// Host memory that calls itself a GPU's; `exact` blocks.
Allocator& host_allocator(int device);

}  // namespace rondo::test
