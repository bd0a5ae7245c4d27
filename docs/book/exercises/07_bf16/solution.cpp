// Adds a little less than half a unit, or exactly half if the last bit is 1. The carry does the
// rest, also from the largest number to infinity.
#include <bit>
#include <cstdint>

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  const std::uint32_t last = bits >> 16 & 1;
  return static_cast<std::uint16_t>((bits + 0x7fff + last) >> 16);
}
