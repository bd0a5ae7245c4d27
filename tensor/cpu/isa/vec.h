// A vector of floats of the instruction set's width (GCC's and Clang's vector types), for kernels
// that control what is in a register. Intrinsics cover what those types cannot express: bits of a
// comparison, and stores past the caches. Only for files that are compiled once for each
// instruction set (table.h).
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#elif __ARM_FEATURE_SVE_BITS > 0  // not set if SVE has no fixed length
#include <arm_sve.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "tensor/cpu/isa/table.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16, accumulators = 24;  // registers that may hold sums
#elif defined(__AVX2__)
constexpr int lanes = 8, accumulators = 12;
#elif __ARM_FEATURE_SVE_BITS > 0
constexpr int lanes = __ARM_FEATURE_SVE_BITS / 32, accumulators = 24;
#elif defined(__aarch64__)
constexpr int lanes = 4, accumulators = 24;
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

/// a b + c, rounded once if the instruction set can, otherwise twice. Only this is ever fused. For
/// `a * b + c * d` the compiler could fuse either product, and choose differently in another copy
/// of a loop, so it is told to fuse nothing (-ffp-contract=off).
inline float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
inline Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif __ARM_FEATURE_SVE_BITS > 0
  return svmla_f32_x(svptrue_b32(), c, a, b);
#elif defined(__aarch64__)
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
inline Vec multiply_add(float a, Vec b, Vec c) { return multiply_add(a - Vec{}, b, c); }

// bf16 is the upper half of an f32.
using Bits = std::uint32_t __attribute__((vector_size(lanes * 4)));
using HalfBits = Bf16Bits __attribute__((vector_size(lanes * 2)));
#if defined(__AVX512BW__) && __has_builtin(__builtin_shufflevector)
// One permutation each; GCC 12 compiles the other branch to five and two instructions.
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
#if __ARM_FEATURE_SVE_BITS > 0
  return (Vec)((Bits)svld1uh_u32(svptrue_b32(), p) << 16);
#else
  HalfBits v;
  __builtin_memcpy(&v, p, sizeof v);
  return widened(v);
#endif
}
/// Rounds to nearest, ties to even; NaN stays NaN.
inline void store(Bf16Bits* p, Vec v) {
  const Bits bits = (Bits)v, nan = (Bits)(v != v);
  const Bits even = bits + 0x7fff + ((bits >> 16) & 1);
  const Bits rounded = (even & ~nan) | ((bits | 0x400000) & nan);
#if __ARM_FEATURE_SVE_BITS > 0
  svst1h_u32(svptrue_b32(), p, rounded >> 16);
#else
  const HalfBits half = upper_half(rounded);
  __builtin_memcpy(p, &half, sizeof half);
#endif
}

// Stores past the caches, for data that is too large to be read from them later. An ordinary store
// first reads the cache line, which is a third of a copy's traffic. Needs an address aligned to the
// vector's size, and stream_end() before another thread may read the data.
inline void stream(float* p, Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#else
  store(p, v);
#endif
}
inline void stream(Bf16Bits* p, Vec v) {
#if defined(__AVX2__)
  alignas(64) Bf16Bits half[lanes];
  store(half, v);
#if defined(__AVX512F__)
  _mm256_stream_si256((__m256i*)p, *(const __m256i*)half);
#else
  _mm_stream_si128((__m128i*)p, *(const __m128i*)half);
#endif
#else
  store(p, v);
#endif
}
inline void stream_end() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

// One bit for each element of a run; the bits of one vector are together. i is the index of a
// vector's first element, a multiple of `lanes`. The first vector of a byte must be stored before
// the second.
inline Bits bit_of_lane() {
  Bits bit;
  for (int k = 0; k < lanes; ++k) bit[k] = 1U << k;
  return bit;
}
/// The bits of all lanes combined. No two lanes have the same bit.
inline unsigned joined(Bits v) {
#if __ARM_FEATURE_SVE_BITS > 0
  return svorv_u32(svptrue_b32(), v);
#elif defined(__aarch64__)
  return vaddvq_u32((uint32x4_t)v);
#else
  unsigned all = 0;
  for (int k = 0; k < lanes; ++k) all |= v[k];
  return all;
#endif
}
using RunBits = std::conditional_t<lanes == 16, std::uint16_t, std::uint8_t>;
/// Stores 1 where v is above `least` or NaN.
inline void store_bits(std::uint8_t* bits, Index i, Vec v, float least) {
#if defined(__AVX512F__)
  unsigned above = _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(least), _CMP_NLE_UQ);
#elif defined(__AVX2__)
  unsigned above = _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(least), _CMP_NLE_UQ));
#else
  unsigned above = joined(~(Bits)(v <= least) & bit_of_lane());
#endif
  if (lanes < 8 && i % 8 != 0) above = bits[i / 8] | above << lanes;
  const auto run = static_cast<RunBits>(above);
  __builtin_memcpy(bits + i / 8, &run, sizeof run);
}
/// v where its bits are 1, otherwise 0.
inline Vec where_bits(const std::uint8_t* bits, Index i, Vec v) {
  RunBits run;
  __builtin_memcpy(&run, bits + i / 8, sizeof run);
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_mov_ps(run, (__m512)v);
#else
  const Bits on = (Bits{} + (static_cast<std::uint32_t>(run) >> i % 8)) & bit_of_lane();
  return (Vec)((Bits)v & (Bits)(on != 0));
#endif
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA_SET
