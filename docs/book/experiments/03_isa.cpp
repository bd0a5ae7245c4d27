// Which instruction set computes the first step of README's twenty lines, and which bits it gives:
// a checksum of what the step makes.
#include <rondo/rondo.h>

#include <iomanip>
#include <iostream>

#include "tensor/cpu/isa/table.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {
void show(const char* name, const Tensor& x);
}  // namespace

int main() {
  rd::manual_seed(1);
  const Tensor x = rd::rand({1000, 2}) * 2.0 - 1.0;
  const Tensor y = lt(sum(square(x), {1}), 0.6).to(rd::i64);
  nn::Linear first(2, 32), last(32, 2);
  const Tensor hidden = first(x), positive = relu(hidden);
  const Tensor loss = cross_entropy(last(positive), y);
  loss.backward();
  std::cout << "instruction set " << rd::cpu::kernels().name << "\n";
  show("the points x", x);
  show("their answers y", y);
  show("sum of the points", sum(x));
  show("weights of layer 0", first.weight);
  show("output of layer 0", hidden);
  show("output of relu", positive);
  show("loss", loss);
  show("gradient of weights 0", first.weight.grad());
  show("gradient of bias 2", last.bias.grad());
}

namespace {

/// FNV-1a over the bytes of x.
void show(const char* name, const Tensor& x) {
  std::uint32_t hash = 2166136261;
  const Tensor dense = x.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(dense.data_ptr());
  for (std::int64_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 16777619;
  std::cout << "  " << std::left << std::setw(24) << name << std::right << std::setfill('0')
            << std::hex << std::setw(8) << hash << std::setfill(' ') << "\n";
}

}  // namespace
