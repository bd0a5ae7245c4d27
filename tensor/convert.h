#pragma once
// Conversion of one element from one type to another, the same on all devices, and the three types
// in which kernels compute.

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/dtype.h"
#include "tensor/error.h"

namespace rondo {

/// Converts value to T. Float to integer truncates and is defined for every input: a value that is
/// out of range or NaN becomes the smallest int64, and T keeps its low bits. For bool the result is
/// value != 0. A conversion to a 16-bit float first rounds to f32.
template <class T, class C>
RONDO_HD T convert(C value) {
  if constexpr (std::is_same_v<C, BFloat16> || std::is_same_v<C, Half>) {
    return convert<T>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != C(0);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<C>) {
    constexpr C limit = C(9223372036854775808.0);
    bool fits = value >= -limit && value < limit;
    return static_cast<T>(fits ? static_cast<std::int64_t>(value)
                               : std::numeric_limits<std::int64_t>::min());
  } else if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The type in which arithmetic on T is done.
template <class T>
using Compute =
    std::conditional_t<std::is_same_v<T, double>, double,
                       std::conditional_t<is_floating(dtype_of<T>), float, std::int64_t>>;

/// Calls `f.operator()<C>()` with the type C in which kernels compute `dtype`: double for f64,
/// float for the other floats, int64_t for integers and bool.
template <class F>
void visit_compute_type(DType dtype, F&& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  if (is_floating(dtype)) return f.template operator()<float>();
  return f.template operator()<std::int64_t>();
}

/// visit_compute_type for kernels that exist only for floats. Throws DTypeError naming `op` for
/// other dtypes.
template <class F>
decltype(auto) visit_float_compute(DType dtype, const char* op, F&& f) {
  require<DTypeError>(is_floating(dtype), op, ": expected a floating-point dtype, got ", dtype);
  if (dtype == DType::f64) return f.template operator()<double>();
  return f.template operator()<float>();
}

/// visit_dtype for kernels that exist only for floats. Throws DTypeError naming `op` for other
/// dtypes.
template <class F>
decltype(auto) visit_float(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::f16:
      return f.template operator()<Half>();
    default:
      detail::fail<DTypeError>({op, ": expected a floating-point dtype, got ", dtype});
  }
}

/// Calls `f.operator()<Word>()` with an unsigned integer type as wide as an element of `dtype`.
/// Kernels that only move elements need to know nothing else.
template <class F>
decltype(auto) visit_word(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 8:
      return f.template operator()<std::uint64_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    default:
      return f.template operator()<std::uint8_t>();
  }
}

/// The compute type through which an element is converted from one dtype to another. For two floats
/// it is the wider one. Integers that a double holds exactly use double. i64 stays an integer until
/// it is stored, because a double would round it once more.
inline DType conversion_dtype(DType from, DType to) {
  if (from == to) return from;
  if (is_floating(from)) return promote(from, is_floating(to) ? to : f32);
  return from == i64 ? i64 : f64;
}

}  // namespace rondo
