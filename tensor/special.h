#pragma once
// Special functions that <cmath> lacks, for the rows of tensor/ops_table.h. T is float or double.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/dtype.h"

namespace rondo {
namespace functors {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double two_over_sqrt_pi = 1.12837916709551257390;  // the derivative of erf at 0

/// is_first ? a : b, by their bits. The compiler merges two ?: of one condition around a function
/// and calls it with numbers outside of its domain, for which the vector versions in the C library
/// are ten times as slow: they call the scalar function.
template <class T>
__attribute__((always_inline)) RONDO_HD inline T select(bool is_first, T a, T b) {
#if defined(__CUDA_ARCH__)
  return is_first ? a : b;
#else
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const Bits mask = -static_cast<Bits>(is_first);
  return __builtin_bit_cast(
      T, (__builtin_bit_cast(Bits, a) & mask) | (__builtin_bit_cast(Bits, b) & ~mask));
#endif
}
/// y, the value of a function, or NaN outside of its domain.
template <class T>
__attribute__((always_inline)) RONDO_HD inline T or_nan(bool is_inside, T y) {
  return select(is_inside, y, std::numeric_limits<T>::quiet_NaN());
}

/// log |Γ(x)|. The C library's lgamma would also write the sign to a global variable, which threads
/// share.
RONDO_HD inline double log_gamma(double x) {
#if defined(__CUDA_ARCH__)
  return std::lgamma(x);
#else
  int sign = 0;
  return ::lgamma_r(x, &sign);
#endif
}
RONDO_HD inline float log_gamma(float x) {
#if defined(__CUDA_ARCH__)
  return std::lgamma(x);
#else
  int sign = 0;
  return ::lgammaf_r(x, &sign);
#endif
}

/// The inverse of erf: an approximation (Winitzki, 2008) that is correct to 2e-3, then two steps of
/// Halley's method, of which each triples the number of correct digits. Without branches and
/// inline, so that a loop over it uses vector instructions.
template <class T>
__attribute__((always_inline)) RONDO_HD inline T erfinv(T y) {
  // Outside of the domain as for 0, where the functions are fast.
  const T size = std::abs(y), inside = select(size < T(1), size, T(0));
  constexpr T a = T(0.147);
  const T log = std::log1p(-inside * inside), half = T(2 / pi) / a + log / 2;
  const auto halley = [inside](T x) {
    // Near 1, erf loses the digits that its complement keeps.
    const T near_0 = std::erf(x) - inside, near_1 = (1 - inside) - std::erfc(x);
    const T error = inside < T(0.5) ? near_0 : near_1;
    const T newton = error / (T(two_over_sqrt_pi) * std::exp(-x * x));
    return x - newton / (1 + x * newton);
  };
  const T x = halley(halley(std::sqrt(-log / a / (half + std::sqrt(half * half - log / a)))));
  const T beyond =
      size == T(1) ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
  return std::copysign(size < T(1) ? x : beyond, y);
}

/// Γ'(x) / Γ(x): by the recurrence ψ(x) = ψ(x + 1) - 1 / x to an x of at least 10, where the
/// asymptotic series is exact to rounding; by reflection for negative x.
template <class T>
RONDO_HD T digamma(T x) {
  if (x == T(0)) return std::copysign(std::numeric_limits<T>::infinity(), -x);
  T result = 0;
  if (x < T(0)) {
    const T fraction = x - std::trunc(x);
    if (fraction == T(0)) return std::numeric_limits<T>::quiet_NaN();
    result = -T(pi) / std::tan(T(pi) * fraction);
    x = 1 - x;
  }
  for (; x < T(10); x += 1) result -= 1 / x;
  const T z = 1 / (x * x);
  const T series =
      z *
      (T(1. / 12) -
       z * (T(1. / 120) -
            z * (T(1. / 252) -
                 z * (T(1. / 240) - z * (T(1. / 132) - z * (T(691. / 32760) - z * T(1. / 12)))))));
  return result + std::log(x) - T(0.5) / x - series;
}

/// Σ_{k>=0} 1 / (q + k)^s, the zeta function of Hurwitz, for q >= 0 and s >= 2: the first terms,
/// and the rest by the formula of Euler and Maclaurin.
template <class T>
RONDO_HD T zeta(T s, T q) {
  T sum = 0;
  for (; q < T(10) + s; q += 1) sum += std::pow(q, -s);
  const T power = std::pow(q, -s);
  sum += std::pow(q, 1 - s) / (s - 1) + power / 2;
  // B_2j / (2j)! for j = 1 … 8.
  constexpr double coefficients[] = {1. / 12,           -1. / 720,
                                     1. / 30240,        -1. / 1209600,
                                     1. / 47900160,     -691. / 1307674368000.,
                                     1. / 74724249600., -3617. / 10670622842880000.};
  T factor = s * power / q;  // s (s + 1) … (s + 2j - 2) q^-(s + 2j - 1)
  for (int j = 0; j < 8; ++j) {
    sum += T(coefficients[j]) * factor;
    factor *= (s + T(2 * j + 1)) / q * ((s + T(2 * j + 2)) / q);
  }
  return sum;
}

/// The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! ζ(n + 1, x). For a negative x = p - K with
/// p in (0, 1), the K terms below 0 are those of ζ(n + 1, 1 - p), up to 1 - x.
template <class T>
RONDO_HD T polygamma(T n, T x) {
  const T s = n + 1;
  const bool is_even = std::fmod(n, T(2)) == T(0);
  T factorial = 1;
  for (T k = 2; k <= n; k += 1) factorial *= k;
  T sum;
  if (x >= T(0)) {
    sum = zeta(s, x);
  } else {
    const T p = x - std::floor(x);
    const T below = zeta(s, 1 - p) - zeta(s, 1 - x);
    sum = zeta(s, p) + (is_even ? -below : below);
  }
  return (is_even ? -factorial : factorial) * sum;
}

}  // namespace functors
}  // namespace rondo
