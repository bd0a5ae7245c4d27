#include "tensor/cuda/simulation.h"

#include <atomic>
#include <numeric>
#include <utility>

namespace rondo::cuda {
namespace {

std::atomic<HostLaunch> launcher{nullptr};
std::atomic<bool> loops{true};
std::atomic<HostOrder> host_order{HostOrder::forwards};

}  // namespace

bool is_simulated() { return launcher != nullptr; }
bool runs_loops() { return is_simulated() && loops; }
void simulate(HostLaunch launch, HostKernels kernels) {
  loops = kernels == HostKernels::loops;
  launcher = launch;
}
void set_host_order(HostOrder order) { host_order = order; }
HostSteps host_steps(std::int64_t n) {
  switch (host_order.load()) {
    case HostOrder::forwards:
      return {0, 1};
    case HostOrder::backwards:
      return {n - 1, n - 1};
    case HostOrder::shuffled: {
      std::int64_t step = n / 2 + n / 9;  // about the golden section: neighbours are far apart
      while (std::gcd(step, n) != 1) ++step;
      return {n / 3, step};
    }
  }
  return {0, 1};
}
void launch_on_host(int device, std::function<void()> kernel) {
  launcher.load()(device, std::move(kernel));
}

}  // namespace rondo::cuda
