#pragma once
// Simulated GPUs for tests: tensors of Device::cuda(0) are in host memory, rondo's own CUDA kernels
// run on the host (Note [Kernels on the host] in tensor/cuda/simulation.h; in the programs of
// tests/ptx as nvcc compiled them), and the runtime and NVIDIA's libraries are doubles that compute
// there (host_cudart.h, host_cublaslt.h, host_cudnn.h). RONDO_HOST_ORDER=backwards or shuffled
// changes the order of the calls of a kernel's body. So the kernels' arithmetic and indexing are
// compared with the CPU's on every machine, also under AddressSanitizer.

#include "tensor/allocator.h"
#include "tensor/cuda/simulation.h"

namespace rondo::test {

/// During its lifetime, Device::cuda(0) to Device::cuda(3) are simulated GPUs.
class SimulatedGpus {
 public:
  /// The allocator of the GPUs' memory: `exact` blocks, so that AddressSanitizer detects accesses
  /// outside them, or rondo's `caching` allocator.
  enum class Memory { exact, caching };
  explicit SimulatedGpus(Memory memory = Memory::exact);
  ~SimulatedGpus();
  SimulatedGpus(const SimulatedGpus&) = delete;
  SimulatedGpus& operator=(const SimulatedGpus&) = delete;
};

/// How GPUs that are simulated from now on run kernels. tests/ptx changes it.
void set_host_kernels(cuda::HostKernels kernels);

/// Host memory with the device of a GPU, in `exact` blocks.
Allocator& host_allocator(int device);

}  // namespace rondo::test
