#pragma once
// The switch of Note [Kernels on the host].
//
// Note [Kernels on the host]
// Between `simulate(launch)` and `simulate(nullptr)` a launch is a plain loop over memory of the
// host, with groups of one thread; `launch` says when it runs. Tests do this where there is no GPU,
// together with tables of functions that stand for the runtime and the libraries (cudart.h,
// cublaslt.h, cudnn.h): the same bodies, compiled from the same lines, are compared with the CPU's
// kernels, under AddressSanitizer too. What remains for a real GPU to show is what is in launch.cuh
// (how threads share and combine), and speed.

#include <functional>

namespace rondo::cuda {

/// Runs `kernel` as the next work of the calling thread's current stream of `device`.
using HostLaunch = void (*)(int device, std::function<void()> kernel);

bool is_simulated();
void simulate(HostLaunch launch);
void launch_on_host(int device, std::function<void()> kernel);

}  // namespace rondo::cuda
