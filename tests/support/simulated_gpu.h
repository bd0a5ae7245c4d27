#pragma once
// A GPU that exists in a test alone: tensors of Device::cuda(0) lie in host memory, rondo's own
// CUDA kernels run on the host (Note [Kernels on the host] in tensor/cuda/simulation.h), and what
// NVIDIA's libraries would do is done by the CPU's backend. So the kernels' arithmetic and indexing
// are compared with the CPU's on every machine, under AddressSanitizer too.

namespace rondo::test {

/// While it lives, Device::cuda(0) and Device::cuda(1) are such GPUs.
class SimulatedGpus {
 public:
  SimulatedGpus();
  ~SimulatedGpus();
  SimulatedGpus(const SimulatedGpus&) = delete;
  SimulatedGpus& operator=(const SimulatedGpus&) = delete;
};

}  // namespace rondo::test
