// Conversion between bf16 and f32 for the kernels of this folder: bf16 is the upper half of an f32.
// Works on bits, because the functions of tensor/dtype.h are not local to a file that is compiled
// for one instruction set (table.h).
#pragma once

#include "tensor/cpu/isa/table.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

inline float widen(float v) { return v; }
inline float widen(Bf16Bits v) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(v) << 16);
}

inline void narrow(float v, float& y) { y = v; }
/// Rounds to nearest, ties to even; NaN stays NaN.
inline void narrow(float v, Bf16Bits& y) {
  const auto bits = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
  y = static_cast<Bf16Bits>((v != v ? quiet : rounded) >> 16);
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA_SET
