#pragma once
// The value of element i of a random tensor, as a function of its Philox stream and i only. So the
// result does not depend on strides, threads or the device:
//
//   uniform f32 bf16 f16: u = 24 bits of word i;  f64: u = 53 bits of words 2i, 2i+1;
//                         low + (high - low) u by one fma in double, then one rounding
//   randint:              low + the high half of word64(i) (high - low)
//   normal:               elements 2j and 2j+1 are the pair that Box and Muller (1958) compute from
//                         the uniforms word64(2j), word64(2j+1), i.e. of block j
//
// Integers and uniforms are bit-identical on all devices. Normals may differ in the last digits of
// sin, cos and log.

#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/convert.h"
#include "tensor/random.h"

namespace rondo {

/// A uniform number in [low, high) of a float dtype, as a double.
class UniformDraw {
 public:
  UniformDraw(DType dtype, double low, double high)
      : dtype_(dtype),
        low_(low),
        range_(high - low),
        last_(range_ > 0 ? below(dtype, high) : low) {}

  RONDO_HD double operator()(const Philox& random, std::uint64_t i) const {
    return value(dtype_ == DType::f64 ? uniform_double(random.word64(i))
                                      : uniform_float(random.word(i)));
  }
  /// The number for u in [0, 1).
  RONDO_HD double value(double u) const {
    const double v = rounded(dtype_, low_ == 0 ? range_ * u : std::fma(range_, u, low_));
    return v > last_ ? last_ : v;
  }
  RONDO_HD DType dtype() const { return dtype_; }

 private:
  /// `value` rounded to `dtype`.
  RONDO_HD static double rounded(DType dtype, double value) {
    if (dtype == DType::f64) return value;
    const auto narrow = static_cast<float>(value);
    if (dtype == DType::bf16) return static_cast<float>(BFloat16(narrow));
    return dtype == DType::f16 ? static_cast<float>(Half(narrow)) : narrow;
  }
  /// The largest number below `high` that `dtype` can hold (rounding must not return `high`
  /// itself).
  static double below(DType dtype, double high) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double ulp = std::nextafter(high, -infinity);
    for (double step = high - ulp; rounded(dtype, ulp) >= high; step *= 2) ulp = high - step;
    return rounded(dtype, ulp);
  }

  DType dtype_;
  double low_, range_, last_;
};

/// Elements 2j and 2j+1 of a normal tensor.
struct NormalPair {
  double first, second;
};
RONDO_HD inline NormalPair draw_normal_pair(const Philox& random, std::uint64_t j, double mean,
                                            double stddev) {
  const auto words = random.block(j);
  // 1 - u is in (0, 1], where the logarithm is finite.
  const double u = 1 - uniform_double(words[0] | std::uint64_t{words[1]} << 32);
  const double v = uniform_double(words[2] | std::uint64_t{words[3]} << 32);
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  return {mean + stddev * radius * std::cos(angle), mean + stddev * radius * std::sin(angle)};
}

/// Element i of a tensor of integers in [low, low + range).
RONDO_HD inline std::int64_t draw_integer(const Philox& random, std::uint64_t i, std::int64_t low,
                                          std::uint64_t range) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                   uniform_below(random.word64(i), range));
}

}  // namespace rondo
