// The memory that is in use after each block of the forward and of the backward, in three ways.
//
//   build/bin/book/07_memory [FILE]     also writes all values, as JSON
#include <omp.h>
#include <rondo/rondo.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <vector>

#include "tensor/cpu/allocator.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

constexpr int blocks = 16;

double mebibytes_in_use() {
  return static_cast<double>(rd::cpu::CachingAllocator::instance().stats().in_use) / (1 << 20);
}

struct Memory {
  std::vector<double> in_use;  // in MiB
  double most = 0;             // also at the end of each block that backward computes again
};

/// One step of a chain of blocks. Each tensor in it has 4096 x 64 floats: one MiB.
Memory step(bool with_checkpoints, bool in_bf16) {
  rd::manual_seed(1);
  std::vector<nn::Sequential> chain;
  for (int i = 0; i < blocks; ++i)
    chain.emplace_back(nn::Linear(64, 64), nn::GELU(), nn::Linear(64, 64), nn::GELU());
  const Tensor input = rd::randn({4096, 64});
  const double before = mebibytes_in_use();
  Memory memory;
  const auto note = [&] { memory.most = std::max(memory.most, mebibytes_in_use() - before); };
  const auto sample = [&] {
    note();
    memory.in_use.push_back(mebibytes_in_use() - before);
  };
  for (nn::Sequential& block : chain)
    block.register_forward_hook([&](nn::Module&, const rd::Tensors&, const rd::Tensors&) {
      note();
      return rd::Tensors();
    });

  sample();
  Tensor loss;
  {
    std::optional<rd::Autocast> amp;
    if (in_bf16) amp.emplace(rd::Device::cpu(), rd::bf16);
    Tensor x = input;
    for (nn::Sequential& block : chain) {
      x = with_checkpoints ? checkpoint(block, x) : block(x);
      register_hook(x, [&](const Tensor&) {  // the backward of the block begins
        sample();
        return Tensor();
      });
      sample();
    }
    loss = mean(x);
  }
  loss.backward();
  sample();
  return memory;
}

void show(const char* name, const Memory& memory) {
  std::cout << std::left << std::setw(14) << name << std::right << std::fixed
            << std::setprecision(0);
  for (const std::size_t i : {1, 4, 8, 12, 16}) std::cout << std::setw(5) << memory.in_use[i];
  std::cout << "  |";
  for (const std::size_t i : {17, 21, 25, 29, 33}) std::cout << std::setw(5) << memory.in_use[i];
  std::cout << "  |" << std::setw(5) << memory.most << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  omp_set_num_threads(1);  // small ops: more threads mostly wait for each other
  const std::pair<const char*, Memory> all[] = {
      {"f32", step(false, false)}, {"checkpoints", step(true, false)}, {"bf16", step(false, true)}};
  std::cout << "MiB in use    after block              |  before the backward      | most\n"
            << "                 1    4    8   12   16  |   16   12    8    4  end  |\n";
  for (const auto& [name, memory] : all) show(name, memory);
  if (argc < 2) return 0;
  std::ofstream out(argv[1]);
  for (const auto& [name, memory] : all) {
    out << (name == all[0].first ? "{" : ",\n ") << '"' << name << "\": [";
    for (std::size_t i = 0; i < memory.in_use.size(); ++i)
      out << (i ? ", " : "") << memory.in_use[i];
    out << "]";
  }
  out << "}\n";
}
