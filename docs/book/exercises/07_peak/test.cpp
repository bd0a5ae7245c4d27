// A step that must fit half of the memory.
//
// start fails: the peak is 100 % of the memory of a step that keeps everything
#include <omp.h>
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>

#include "exercise.h"
#include "tensor/cpu/allocator.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

std::vector<nn::Sequential> make_blocks() {
  rd::manual_seed(1);
  std::vector<nn::Sequential> blocks;
  for (int i = 0; i < 12; ++i)
    blocks.emplace_back(nn::Linear(64, 64), nn::GELU(), nn::Dropout(0.1), nn::Linear(64, 64),
                        nn::GELU());
  return blocks;
}

struct Result {
  std::size_t peak = 0;
  std::vector<Tensor> gradients;
};

template <class Forward>
Result step(Forward forward) {
  std::vector<nn::Sequential> blocks = make_blocks();
  const Tensor x = rd::randn({2048, 64});
  rd::cpu::CachingAllocator& allocator = rd::cpu::CachingAllocator::instance();
  allocator.reset_peak();
  const std::size_t before = allocator.stats().in_use;
  mean(forward(blocks, x)).backward();
  Result result{allocator.stats().peak - before, {}};
  for (nn::Sequential& block : blocks)
    for (const Tensor& p : block.parameters()) result.gradients.push_back(p.grad());
  return result;
}

int run() {
  omp_set_num_threads(1);  // small ops: more threads mostly wait for each other
  const Result whole = step([](std::vector<nn::Sequential>& blocks, Tensor x) {
    for (nn::Sequential& block : blocks) x = block(x);
    return x;
  });
  const Result mine = step(run_blocks);
  for (std::size_t i = 0; i < whole.gradients.size(); ++i)
    rd::require(mine.gradients[i].defined() && equal(mine.gradients[i], whole.gradients[i]),
                "gradient ", i, " differs from that of a step that keeps everything");
  const auto percent = 100 * mine.peak / whole.peak;
  rd::require(percent <= 50, "the peak is ", percent,
              " % of the memory of a step that keeps everything; at most 50 % are allowed");
  std::cout << "equal gradients with " << percent << " % of the memory\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
