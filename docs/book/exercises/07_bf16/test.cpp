// The conversion of f32 to bf16, compared with rondo's for all kinds of numbers.
//
// start fails: 1.0078 becomes 1 instead of 1.00781
#include <rondo/rondo.h>

#include <bit>
#include <cstdint>
#include <iostream>
#include <limits>

namespace rd = rondo;

/// The nearest bf16 of a float, as bits: the upper half of an f32. Of two that are equally near,
/// the one whose last bit is 0. NaN stays NaN.
std::uint16_t to_bf16(float value);

namespace {

float widened(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

void check(float value) {
  const std::uint16_t found = to_bf16(value), expected = rd::BFloat16(value).bits;
  if (value != value) {
    rd::require(widened(found) != widened(found), "NaN becomes ", widened(found));
    return;
  }
  rd::require(found == expected, value, " becomes ", widened(found), " instead of ",
              widened(expected));
}

int run() {
  check(1);
  check(-2.5f);
  check(1.0078f);                            // nearer to the upper neighbour
  check(1.00390625f);                        // halfway: down, to the even one
  check(1.01171875f);                        // halfway: up, to the even one
  check(std::bit_cast<float>(0x3f7fffffu));  // the carry reaches the exponent
  check(3.4e38f);                            // beyond the largest bf16
  check(std::numeric_limits<float>::infinity());
  check(std::numeric_limits<float>::quiet_NaN());
  check(std::bit_cast<float>(0x7f800001u));  // a NaN whose upper half is that of infinity
  check(std::bit_cast<float>(0x7fffffffu));  // a NaN that a carry would turn into -0
  for (std::uint64_t i = 0; i < 100'000; ++i) check(std::bit_cast<float>(rd::Philox{1, 0}.word(i)));
  std::cout << "all floats are rounded to the nearest bf16\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
