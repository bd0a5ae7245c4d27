#pragma once
// The switch of Note [Kernels on the host].
//
// Note [Kernels on the host]
// Between `simulate(launch)` and `simulate(nullptr)`, a kernel launch is a plain loop over host
// memory, with groups of one thread; `launch` decides when it runs. Tests without a GPU use this,
// together with function tables that replace the runtime and the libraries (cudart.h, cublaslt.h,
// cudnn.h). They compare the same bodies, compiled from the same source, with the CPU's kernels,
// also under AddressSanitizer. tests/ptx runs the kernels that nvcc compiled, with all their
// threads: it tests launch.cuh (how threads divide work and combine results). Only the speed, and
// what ptxas and a GPU add, must be tested on a real GPU.

#include <cstdint>
#include <functional>

namespace rondo::cuda {

/// Runs `kernel` as the next work of the calling thread's current stream of `device`.
using HostLaunch = void (*)(int device, std::function<void()> kernel);

/// How simulated GPUs run kernels: as loops, or as compiled for a GPU, by a test's own replacement
/// of CUDA's launches (tests/ptx).
enum class HostKernels { loops, compiled };

/// The order of a loop's calls. A GPU runs threads in no particular order, so results must not
/// depend on it.
enum class HostOrder { forwards, backwards, shuffled };
void set_host_order(HostOrder order);

/// The calls of a loop over 0 … n-1: first, first + step, first + 2 step, … modulo n.
struct HostSteps {
  std::int64_t first, step;
};
HostSteps host_steps(std::int64_t n);

template <class Body>
void in_host_order(std::int64_t n, const Body& body) {
  const HostSteps steps = host_steps(n);
  std::int64_t at = steps.first;
  for (std::int64_t i = 0; i < n; ++i) {
    body(at);
    at += steps.step;
    if (at >= n) at -= n;
  }
}

bool is_simulated();
/// Whether GPUs are simulated and kernels are loops.
bool runs_loops();
void simulate(HostLaunch launch, HostKernels kernels = HostKernels::loops);
void launch_on_host(int device, std::function<void()> kernel);

}  // namespace rondo::cuda
