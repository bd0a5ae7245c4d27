#pragma once
// Scalar: one number to be passed to a kernel: a double, a 64-bit integer or a bool.

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "tensor/dtype.h"

namespace rondo {

class Scalar {
 public:
  /// Only from a bool: a pointer, such as a string literal, would also convert to one.
  template <std::same_as<bool> T>
  Scalar(T value) : value_(value) {}
  template <IntegerNotBool T>
  Scalar(T value) : value_(static_cast<std::int64_t>(value)) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
      if (value > static_cast<std::uint64_t>(INT64_MAX)) refuse(value);
  }
  template <std::floating_point T>
  Scalar(T value) : value_(static_cast<double>(value)) {}

  /// The number as T. Floats become integers by truncation; every value except 0 is true. Throws
  /// Error if T cannot hold the number: NaN as an integer, or 300 as a byte. An unsigned T takes a
  /// negative integer modulo its range, so -1 becomes 255. Conversion to a float rounds.
  template <class T>
  T to() const {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) check_fits(dtype_of<T>);
    return cast<T>();
  }
  /// Like `to` without the check, for kernels: a value that does not fit wraps around, and a float
  /// that does not fit into int64_t becomes the smallest int64_t, as when tensors are converted.
  template <class T>
  T cast() const {
    return std::visit([](auto v) { return converted<T>(v); }, value_);
  }
  /// Throws Error with the number unless a tensor of `dtype` can hold it. Integers out of range and
  /// finite numbers beyond the range of a float do not fit; fractions are truncated or rounded.
  void check_fits(DType dtype) const;

  /// Throws Error unless this is a float, or an integer that `dtype` (f32 or f64) holds without
  /// rounding. `advice` tells the caller what to do instead.
  void check_exact(DType dtype, const char* advice) const;

  /// boolean, i64 or f64: the category for type promotion.
  DType dtype() const {
    constexpr DType kinds[] = {DType::f64, DType::i64, DType::boolean};
    return kinds[value_.index()];
  }

 private:
  /// Throws Error because int64_t cannot hold the value.
  [[noreturn]] static void refuse(std::uint64_t value);
  template <class T, class V>
  static T converted(V v) {
    if constexpr (std::is_same_v<T, bool>) {
      return v != V(0);
    } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<V>) {
      const bool fits = v >= -0x1p63 && v < 0x1p63;
      return static_cast<T>(fits ? static_cast<std::int64_t>(v) : INT64_MIN);
    } else {
      return static_cast<T>(v);
    }
  }

  std::variant<double, std::int64_t, bool> value_;
};

}  // namespace rondo
