// Vector versions of elementary functions: tells the compiler that glibc has them (libmvec), so
// that a loop over std::exp(x[i]) computes 4, 8 or 16 at once. glibc itself declares them only
// under -ffast-math, because they are less exact: their errors are up to 4 ulp, those of the scalar
// functions about 1, of some of these 2. Zeros, infinities and NaNs give the same results
// (tests/tensor/vector_math_test.cpp).
//
// For f32 only: f64 serves as the reference for comparisons. Without glibc 2.35 or later, x86-64
// and GCC, the loops call the scalar functions. Only for files that are compiled once for each
// instruction set (table.h).
//
// A vector function may differ in the last bit from the scalar one, which the compiler uses for a
// loop's last elements. A result must not depend on the element's position in a tensor. So loops
// over these functions run through multiples of `math_block`, with the remainder padded.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/cpu/isa/vec.h"
#include "tensor/ops_table.h"
#include "tensor/special.h"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define RONDO_OF_VECTORS __attribute__((simd("notinbranch")))
extern "C" {
#define RONDO_ROW(name) RONDO_OF_VECTORS float name##f(float) noexcept;
RONDO_VECTOR_FUNCTIONS(RONDO_ROW)
#undef RONDO_ROW
RONDO_OF_VECTORS float powf(float, float) noexcept;
RONDO_OF_VECTORS float atan2f(float, float) noexcept;
}
#undef RONDO_OF_VECTORS
#endif
#endif

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

/// A multiple of every vector's length.
constexpr std::int64_t math_block = 16;

/// exp(x), or 0 where that is below 1.7e-38, about the smallest normal float: for weights and
/// probabilities, whose x is not above 88. The error is at most 1.02 ulp. The compiler inlines it,
/// unlike the vector version of exp, and a masked score, which is -inf, takes no longer.
///
/// With x = n ln 2 + r and |r| <= ln 2 / 2 it is 2^n exp(r), and exp(r) is 1 + r + r^2 q(r) with
/// the polynomial q of degree 4 whose largest relative error is smallest (3e-9).
inline float exp_or_0(float x) {
  constexpr float least = -87;
  const float within = functors::select(x < least, least, x);
  constexpr float inverse_ln2 = 1.44269504F, ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
  constexpr float round = 12'582'912;  // 1.5 * 2^23: the sum's last bits are the nearest integer
  const float sum = multiply_add(within, inverse_ln2, round);
  const float n = sum - round;
  const float r = multiply_add(n, -ln2_low, multiply_add(n, -ln2_high, within));
  float q = 1.38144661e-3F;
  q = multiply_add(q, r, 8.36878084e-3F);
  q = multiply_add(q, r, 4.16683927e-2F);
  q = multiply_add(q, r, 1.66665196e-1F);
  q = multiply_add(q, r, 4.99999940e-1F);
  const float of_r = multiply_add(q, r * r, r) + 1;
  const auto bits = __builtin_bit_cast(std::uint32_t, sum) + 127;
  const auto power = __builtin_bit_cast(float, bits << 23);  // 2^n
  return functors::select(x < least, 0.0F, of_r * power);
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA_SET
