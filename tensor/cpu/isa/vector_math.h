// Elementary functions of whole vectors: tells the compiler that glibc has them (libmvec), so that
// a loop over std::exp(x[i]) computes 4, 8 or 16 at once. glibc's own declarations say so under
// -ffast-math only, for the sake of the last bit: these err by up to 4 units in the last place, the
// scalar ones by about 1, some by 2. Zeros, infinities and NaNs come out the same
// (tests/tensor/vector_math_test.cpp).
//
// For f32 only: f64 is what others are compared with. Elsewhere than in glibc 2.35 and later on
// x86-64, compiled by GCC, the loops call the scalar functions. Only for files that are compiled
// once for each instruction set (table.h).
//
// What a vector function gives may differ in the last bit from the scalar one, which the compiler
// takes for a loop's last elements. A result shall not depend on where in a tensor its element
// lies: loops over these run through multiples of `math_block`, the rest filled up.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define RONDO_OF_VECTORS __attribute__((simd("notinbranch")))
extern "C" {
RONDO_OF_VECTORS float expf(float) noexcept;
RONDO_OF_VECTORS float expm1f(float) noexcept;
RONDO_OF_VECTORS float logf(float) noexcept;
RONDO_OF_VECTORS float log1pf(float) noexcept;
RONDO_OF_VECTORS float sinf(float) noexcept;
RONDO_OF_VECTORS float cosf(float) noexcept;
RONDO_OF_VECTORS float tanf(float) noexcept;
RONDO_OF_VECTORS float sinhf(float) noexcept;
RONDO_OF_VECTORS float coshf(float) noexcept;
RONDO_OF_VECTORS float tanhf(float) noexcept;
RONDO_OF_VECTORS float asinf(float) noexcept;
RONDO_OF_VECTORS float acosf(float) noexcept;
RONDO_OF_VECTORS float atanf(float) noexcept;
RONDO_OF_VECTORS float erff(float) noexcept;
RONDO_OF_VECTORS float powf(float, float) noexcept;
RONDO_OF_VECTORS float atan2f(float, float) noexcept;
}
#undef RONDO_OF_VECTORS
#endif
#endif

namespace rondo::cpu::isa::RONDO_ISA {
namespace {

/// A multiple of every vector's length.
constexpr std::int64_t math_block = 16;

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA
