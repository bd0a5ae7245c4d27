// remainder, fmod and floor_divide of floats have the bits of the C library's fmod and of Python's
// formulas on it, for numbers of all kinds: with near quotients a vector loop computes them
// (tensor/functors.h), otherwise a call for each number.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/support.h"
#include "tensor/backend.h"

namespace rondo {
namespace {

template <class T>
T expected(BinaryOp op, T a, T b) {
  if (op == BinaryOp::fmod) return std::fmod(a, b);
  T rest = std::fmod(a, b);
  const bool other_sign = rest != 0 && (b < 0) != (rest < 0);
  if (op == BinaryOp::remainder) return other_sign ? rest + b : rest;
  if (b == 0) return a / b;
  T quotient = (a - rest) / b;
  if (other_sign) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T whole = std::floor(quotient);
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}

template <class T>
void expect_bits(const std::vector<T>& a, const std::vector<T>& b) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (const BinaryOp op : {BinaryOp::fmod, BinaryOp::remainder, BinaryOp::floor_divide}) {
    const Tensor left = tensor(a), right = tensor(b), y = Tensor::empty_like(left);
    backend(y).binary(op, left, right, y);
    const std::vector<T> values = y.to_vector<T>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const T want = expected(op, a[i], b[i]);
      if (std::isnan(want) && std::isnan(values[i])) continue;
      ASSERT_EQ(std::bit_cast<Bits>(values[i]), std::bit_cast<Bits>(want))
          << name_of(op) << " of " << a[i] << " and " << b[i] << " is " << values[i] << ", not "
          << want;
    }
  }
}

/// Numbers with random bits, of all exponents; NaN left out.
template <class T>
std::vector<T> all_kinds(std::size_t n, std::uint64_t seed) {
  const Philox random{.seed = seed};
  std::vector<T> values;
  for (std::uint64_t i = 0; values.size() < n; ++i) {
    const std::uint64_t word = random.word64(i);
    T value;
    std::memcpy(&value, &word, sizeof value);
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

template <class T>
void check() {
  constexpr std::size_t n = 100'000;
  std::vector<T> a = all_kinds<T>(n, 1), b = all_kinds<T>(n, 2);
  expect_bits(a, b);
  // Quotients below the limit, 2^24 or 2^53, whole blocks of them.
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(a[i]) || a[i] == 0) a[i] = 1;
    int exponent = 0;
    if (std::abs(b[i]) < std::numeric_limits<T>::min() || !std::isfinite(b[i])) b[i] = T(1.5);
    const int below = static_cast<int>(i % (std::numeric_limits<T>::digits - 1));
    b[i] = std::ldexp(std::frexp(b[i], &exponent), std::ilogb(a[i]) - below);
    if (b[i] == 0 || !std::isfinite(b[i])) b[i] = a[i];
  }
  expect_bits(a, b);
  // Quotients just below, at and just above a whole number.
  for (std::size_t i = 0; i < n; ++i) {
    const T whole = static_cast<T>(i % 5'000'000 + 1);
    b[i] = std::ldexp(T(1) + static_cast<T>(i % 1021) / 1024, static_cast<int>(i % 40) - 20);
    a[i] = whole * b[i];
    if (i % 3 == 1) a[i] = std::nextafter(a[i], T(0));
    if (i % 3 == 2) a[i] = std::nextafter(a[i], std::numeric_limits<T>::infinity());
    if (i % 2 == 1) a[i] = -a[i];
    if (i % 7 == 3) b[i] = -b[i];
  }
  expect_bits(a, b);
  const T inf = std::numeric_limits<T>::infinity(), tiny = std::numeric_limits<T>::denorm_min();
  const std::vector<T> special = {0, -T(0), 1, -1, inf, -inf, NAN, tiny, -tiny, T(0.1), -3, 4};
  for (const T x : special)
    for (const T y : special) expect_bits<T>({x}, {y});
}

TEST(Remainder, OfFloatsHasTheBitsOfTheCLibrary) { check<float>(); }
TEST(Remainder, OfDoublesHasTheBitsOfTheCLibrary) { check<double>(); }

}  // namespace
}  // namespace rondo
