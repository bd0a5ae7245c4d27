// The time of some kernels with this process's instruction set (RONDO_ISA chooses it), as JSON: the
// data of chapter 3's figure. Run it alone on the machine; the figure has the shortest of many
// runs.
#include <omp.h>
#include <rondo/rondo.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "tensor/cpu/isa/table.h"

namespace rd = rondo;
using rondo::Tensor;

int main() {
  using Clock = std::chrono::steady_clock;
  omp_set_num_threads(1);
  rd::manual_seed(1);
  const Tensor x = rd::randn({64, 256}), a = rd::randn({256, 256}), b = rd::randn({256, 256});
  const std::pair<const char*, std::function<void()>> all[] = {
      {"relu", [&] { relu(x); }},
      {"sum", [&] { sum(x); }},
      {"exp", [&] { exp(x); }},
      {"softmax", [&] { softmax(x, 1); }},
      {"layer_norm", [&] { layer_norm(x, {256}); }}};
  std::cout << "{\"instruction_set\": \"" << rd::cpu::kernels().name << "\"";
  for (const auto& [name, run] : all) {
    double best = 1e300;
    for (int i = 0; i < 300; ++i) {
      const auto start = Clock::now();
      for (int k = 0; k < 10; ++k) run();
      best = std::min(best,
                      std::chrono::duration<double, std::micro>(Clock::now() - start).count() / 10);
    }
    std::cout << ", \"" << name << "\": " << best;
  }
  std::cout << "}\n";
}
