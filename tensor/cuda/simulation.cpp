#include "tensor/cuda/simulation.h"

#include <atomic>
#include <utility>

namespace rondo::cuda {
namespace {

std::atomic<HostLaunch> launcher{nullptr};
std::atomic<bool> loops{true};

}  // namespace

bool is_simulated() { return launcher != nullptr; }
bool runs_loops() { return is_simulated() && loops; }
void simulate(HostLaunch launch, HostKernels kernels) {
  loops = kernels == HostKernels::loops;
  launcher = launch;
}
void launch_on_host(int device, std::function<void()> kernel) {
  launcher.load()(device, std::move(kernel));
}

}  // namespace rondo::cuda
