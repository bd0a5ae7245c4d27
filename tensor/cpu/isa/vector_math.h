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
/// probabilities. The vector version of exp would be slow there (functors::select), and a masked
/// score is -inf.
inline float exp_or_0(float x) {
  constexpr float least = -87;
  return functors::select(x < least, 0.0F, std::exp(functors::select(x < least, least, x)));
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA_SET
