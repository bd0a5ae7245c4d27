// A vector of floats as wide as the instruction set has them (GCC's and Clang's vector types, which
// are no intrinsics), for kernels that say themselves what lies in a register. Only for files that
// are compiled once for each instruction set (table.h).
#pragma once

#include "tensor/cpu/isa/table.h"

namespace rondo::cpu::isa::RONDO_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16, accumulators = 24;  // registers that may hold sums
#elif defined(__AVX2__)
constexpr int lanes = 8, accumulators = 12;
#else
constexpr int lanes = 4, accumulators = 8;
#endif
using Vec = float __attribute__((vector_size(lanes * sizeof(float))));
using Index = std::int64_t;

inline Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }

// bf16 is the upper half of an f32.
using Bits = std::uint32_t __attribute__((vector_size(lanes * 4)));
using HalfBits = Bf16Bits __attribute__((vector_size(lanes * 2)));
inline Vec load(const Bf16Bits* p) {
  HalfBits v;
  __builtin_memcpy(&v, p, sizeof v);
  return (Vec)(__builtin_convertvector(v, Bits) << 16);
}
/// Rounded to nearest, halves to even; a NaN stays one.
inline void store(Bf16Bits* p, Vec v) {
  const Bits bits = (Bits)v, rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const Bits nan = (Bits)(v != v);
  const HalfBits half =
      __builtin_convertvector(((rounded & ~nan) | ((bits | 0x400000) & nan)) >> 16, HalfBits);
  __builtin_memcpy(p, &half, sizeof half);
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA
