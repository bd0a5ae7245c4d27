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
#if defined(__AVX512BW__) && __has_builtin(__builtin_shufflevector)
// One permutation each; of what the other branch says GCC 12 makes five and two instructions.
inline Vec widened(HalfBits v) {
  constexpr int o = 16;  // of the second operand: 0
  return (Vec)__builtin_shufflevector(v, HalfBits{}, o, 0, o, 1, o, 2, o, 3, o, 4, o, 5, o, 6, o, 7,
                                      o, 8, o, 9, o, 10, o, 11, o, 12, o, 13, o, 14, o, 15);
}
inline HalfBits upper_half(Bits v) {
  using Words = Bf16Bits __attribute__((vector_size(lanes * 4)));
  return __builtin_shufflevector((Words)v, (Words)v, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
                                 27, 29, 31);
}
#else
inline Vec widened(HalfBits v) { return (Vec)(__builtin_convertvector(v, Bits) << 16); }
inline HalfBits upper_half(Bits v) { return __builtin_convertvector(v >> 16, HalfBits); }
#endif
inline Vec load(const Bf16Bits* p) {
  HalfBits v;
  __builtin_memcpy(&v, p, sizeof v);
  return widened(v);
}
/// Rounded to nearest, halves to even; a NaN stays one.
inline void store(Bf16Bits* p, Vec v) {
  const Bits bits = (Bits)v, rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const Bits nan = (Bits)(v != v);
  const HalfBits half = upper_half((rounded & ~nan) | ((bits | 0x400000) & nan));
  __builtin_memcpy(p, &half, sizeof half);
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA
