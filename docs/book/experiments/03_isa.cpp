// Which instruction set computes, and which bits it gives: a checksum of some results.
#include <rondo/rondo.h>

#include <cstring>
#include <iostream>

#include "tensor/cpu/isa/table.h"

using rondo::Tensor;

namespace {

/// FNV-1a over the bytes of x.
std::uint32_t checksum(const Tensor& x) {
  std::uint32_t hash = 2166136261;
  const Tensor dense = x.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(dense.data_ptr());
  for (std::int64_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 16777619;
  return hash;
}

}  // namespace

int main() {
  rondo::manual_seed(1);
  const Tensor x = rondo::rand({1000}) * 2.0 - 1.0;
  std::cout << std::hex << "instruction set " << rondo::cpu::kernels().name << "\n"
            << "  x + x      " << checksum(x + x) << "\n"
            << "  relu(x)    " << checksum(relu(x)) << "\n"
            << "  sum(x)     " << checksum(sum(x)) << "\n"
            << "  exp(x)     " << checksum(exp(x)) << "\n"
            << "  softmax(x) " << checksum(softmax(x, 0)) << "\n";
}
