#pragma once
// The switch of Note [Kernels on the host].
//
// Note [Kernels on the host]
// Between `simulate(true)` and `simulate(false)` launches are plain loops on the calling thread,
// over memory of the host, with groups of one thread. Tests do this where there is no GPU: the same
// bodies, compiled from the same lines, are compared with the CPU's kernels, under AddressSanitizer
// too. What remains for a real GPU to show is what is in launch.cuh (how threads share and
// combine), and speed.

namespace rondo::cuda {

bool is_simulated();
void simulate(bool on);

}  // namespace rondo::cuda
