// Instructions of PTX that are more than an expression of C++.

#include "ptx/ptx.h"

namespace rondo::ptx {

std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t both = std::uint64_t(b) << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t which = selector >> 4 * i & 15;
    std::uint32_t byte = both >> 8 * (which & 7) & 255;
    if (which & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

std::uint32_t bmsk(std::uint32_t from, std::uint32_t bits) {
  return shl(bits >= 32 ? ~0u : (1u << bits) - 1, from);
}

std::uint32_t lop3(std::uint32_t a, std::uint32_t b, std::uint32_t c, unsigned table) {
  std::uint32_t result = 0;
  for (int i = 0; i < 8; ++i)
    if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return result;
}

float of_f16(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31;
  const std::uint32_t mantissa = h & 1023;
  if (exponent == 31) return B32{sign | 0x7f800000u | mantissa << 13}.f;
  if (exponent == 0) return std::copysign(std::ldexp(float(mantissa), -24), B32{sign}.f);
  return B32{sign | (exponent + 112) << 23 | mantissa << 13}.f;
}

std::uint16_t to_f16(double x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (x != x) return 0x7fff;
  x = std::fabs(x);
  if (x >= 65520) return sign | 0x7c00;
  if (x < 0x1p-14) return sign | std::uint16_t(std::nearbyint(x * 0x1p24));
  int exponent;
  const double fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  const auto mantissa = std::uint32_t(std::nearbyint(fraction * 2048));
  return sign | std::uint16_t(((exponent + 13) << 10) + mantissa);
}

std::uint16_t to_bf16(float x) {
  if (x != x) return 0x7fff;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::uint32_t shuffle(Thread& t, int site, Shuffle mode, std::uint32_t value, std::uint32_t b,
                      std::uint32_t clamp, std::uint32_t mask, bool& in_range) {
  const std::uint64_t* lanes = exchange(t, site, mask, value);
  const int mine = int(lane(t)), distance = int(b & 31), segment = int(clamp >> 8 & 31);
  const int first = mine & segment, last = first | (int(clamp & 31) & ~segment);
  int from = 0;
  switch (mode) {
    case Shuffle::up:
      from = mine - distance;
      break;
    case Shuffle::down:
      from = mine + distance;
      break;
    case Shuffle::bfly:
      from = mine ^ distance;
      break;
    case Shuffle::idx:
      from = first | (distance & ~segment);
      break;
  }
  in_range = mode == Shuffle::up ? from >= last : from <= last;
  if (!in_range) from = mine;
  if (!(mask >> from & 1)) fail(t, "a shuffle reads a lane that is not in its mask");
  return std::uint32_t(lanes[from]);
}

std::uint32_t ballot(Thread& t, int site, bool mine, std::uint32_t mask) {
  const std::uint64_t* lanes = exchange(t, site, mask, mine);
  std::uint32_t result = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) result |= std::uint32_t(lanes[i] & 1) << i;
  return result;
}

}  // namespace rondo::ptx
