#include "tensor/scalar.h"

#include <cmath>
#include <limits>

#include "tensor/error.h"

namespace rondo {
namespace {

/// The largest finite number of a floating dtype.
double largest(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return std::numeric_limits<float>::max();
    case DType::bf16:
      return 0x1.fep127;
    case DType::f16:
      return 65504;
    default:
      return std::numeric_limits<double>::max();
  }
}

/// The bounds of an integer dtype, as in PyTorch: an unsigned type also accepts values down to
/// -largest, which wrap around.
template <class T>
bool holds(double v) {
  constexpr std::int64_t half = std::numeric_limits<T>::max() / 2 + 1;
  constexpr double above = 2.0 * static_cast<double>(half);  // 2^bits, exactly
  const double lowest = std::is_unsigned_v<T> ? 1 - above : -above;
  return std::trunc(v) >= lowest && std::trunc(v) < above;  // false for NaN
}
template <class T>
bool holds(std::int64_t v) {
  using Limits = std::numeric_limits<T>;
  const auto most = static_cast<std::int64_t>(Limits::max());
  return v <= most && v >= (std::is_unsigned_v<T> ? -most : std::int64_t{Limits::min()});
}

}  // namespace

void Scalar::refuse(std::uint64_t value) {
  throw Error(
      concat("the number ", value,
             " is larger than an i64 can be (a negative difference of "
             "unsigned numbers wraps around to such a value); pass a signed number or a double"));
}

void Scalar::check_fits(DType dtype) const {
  const bool fits = std::visit(
      [dtype]<class V>(V v) {
        if constexpr (std::is_same_v<V, bool>) {
          return true;
        } else if (is_floating(dtype)) {
          const double size = std::abs(static_cast<double>(v));
          return !(size > largest(dtype)) || std::isinf(size);
        } else {
          return visit_dtype(dtype, [v]<class T>() {
            if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return holds<T>(v);
            return true;
          });
        }
      },
      value_);
  if (fits) return;
  std::visit([dtype](auto v) { require(false, "the number ", v, " does not fit into ", dtype); },
             value_);
}

void Scalar::check_exact(DType dtype, const char* advice) const {
  const auto* integer = std::get_if<std::int64_t>(&value_);
  if (integer == nullptr) return;
  const double near =
      dtype == DType::f32 ? static_cast<float>(*integer) : static_cast<double>(*integer);
  require(near < 0x1p63 && static_cast<std::int64_t>(near) == *integer, advice, "; no ", dtype,
          " holds ", *integer, " exactly");
}

}  // namespace rondo
