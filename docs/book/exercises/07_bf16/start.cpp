// Cuts the lower half off: rounds towards 0.
#include <bit>
#include <cstdint>

std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}
