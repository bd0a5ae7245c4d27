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

#include <functional>

namespace rondo::cuda {

/// Runs `kernel` as the next work of the calling thread's current stream of `device`.
using HostLaunch = void (*)(int device, std::function<void()> kernel);

/// How simulated GPUs run kernels: as loops, or as compiled for a GPU, by a test's own replacement
/// of CUDA's launches (tests/ptx).
enum class HostKernels { loops, compiled };

bool is_simulated();
/// Whether GPUs are simulated and kernels are loops.
bool runs_loops();
void simulate(HostLaunch launch, HostKernels kernels = HostKernels::loops);
void launch_on_host(int device, std::function<void()> kernel);

}  // namespace rondo::cuda
