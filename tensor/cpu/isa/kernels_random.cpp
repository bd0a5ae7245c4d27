// Normal random numbers (tensor/draw.h), 16 pairs at once; compiled once for each instruction set
// (table.h). log, sin and cos are glibc's vector functions for doubles, whose errors of some ulps
// are far below the rounding to f32. Only this file declares them: elsewhere f64 is the reference.
#include <cmath>
#include <cstdint>
#include <numbers>

#include "tensor/cpu/isa/table.h"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 22)
extern "C" {
__attribute__((simd("notinbranch"))) double log(double) noexcept;
__attribute__((simd("notinbranch"))) double sin(double) noexcept;
__attribute__((simd("notinbranch"))) double cos(double) noexcept;
}
#endif
#endif

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

constexpr int lanes = 16;

/// Philox::block of `lanes` blocks from `index` on (tensor/random.h), word by word. The rounds are
/// written again, since an inline function of another header must not be compiled here (table.h).
inline void philox_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t index,
                          std::uint32_t (&c)[4][lanes]) {
  for (int l = 0; l < lanes; ++l) {
    const std::uint64_t i = index + static_cast<std::uint64_t>(l);
    auto c0 = static_cast<std::uint32_t>(i), c1 = static_cast<std::uint32_t>(i >> 32),
         c2 = static_cast<std::uint32_t>(stream), c3 = static_cast<std::uint32_t>(stream >> 32),
         k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    c[0][l] = c0, c[1][l] = c1, c[2][l] = c2, c[3][l] = c3;
  }
}

/// 53 bits of two words in [0, 1), exactly: the two halves do not overlap.
inline double uniform(std::uint32_t low, std::uint32_t high) {
  return (static_cast<double>(high) * 0x1p21 + static_cast<double>(low >> 11)) * 0x1p-53;
}

void normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first_pair, std::int64_t pairs,
             double mean, double stddev, float* y) {
  for (std::int64_t j = 0; j < pairs; j += lanes, y += 2 * lanes) {
    std::uint32_t words[4][lanes];
    philox_blocks(seed, stream, first_pair + static_cast<std::uint64_t>(j), words);
    double radius[lanes], angle[lanes];
    for (int l = 0; l < lanes; ++l) {
      radius[l] = stddev * std::sqrt(-2 * std::log(1 - uniform(words[0][l], words[1][l])));
      angle[l] = 2 * std::numbers::pi * uniform(words[2][l], words[3][l]);
    }
    // In loops of their own, since GCC makes one scalar call of a sine and a cosine of one number.
    double cosine[lanes], sine[lanes];
    for (int l = 0; l < lanes; ++l) cosine[l] = std::cos(angle[l]);
    for (int l = 0; l < lanes; ++l) sine[l] = std::sin(angle[l]);
    for (int l = 0; l < lanes; ++l) {
      y[2 * l] = static_cast<float>(mean + radius[l] * cosine[l]);
      y[2 * l + 1] = static_cast<float>(mean + radius[l] * sine[l]);
    }
  }
}

}  // namespace

extern const NormalsKernel normals_f32;
const NormalsKernel normals_f32 = normals;

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
