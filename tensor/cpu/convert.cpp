#include "tensor/cpu/convert.h"

#include <limits>

namespace rondo::cpu {
namespace {

/// Truncation that is defined for every input: out-of-range floats wrap as the CPU's own conversion
/// does for int64 (to the smallest value), then keep the low bits.
template <class T, class C>
T convert(C value) {
  if constexpr (std::is_same_v<T, bool>) {
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

template <class T, class C>
C widen(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
    return convert<C>(static_cast<float>(value));
  } else {
    return convert<C>(value);
  }
}

}  // namespace

template <class C>
void load_row(DType dtype, const char* from, std::int64_t step, std::int64_t n, C* to) {
  visit_dtype(dtype, [&]<class T>() {
    if (step == static_cast<std::int64_t>(sizeof(T))) {
      const T* dense = reinterpret_cast<const T*>(from);
      for (std::int64_t i = 0; i < n; ++i) to[i] = widen<T, C>(dense[i]);
    } else if (step == 0) {
      C value = widen<T, C>(*reinterpret_cast<const T*>(from));
      for (std::int64_t i = 0; i < n; ++i) to[i] = value;
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = widen<T, C>(*reinterpret_cast<const T*>(from + i * step));
      }
    }
  });
}

template <class C>
void store_row(DType dtype, const C* from, std::int64_t n, char* to, std::int64_t step) {
  visit_dtype(dtype, [&]<class T>() {
    if (step == static_cast<std::int64_t>(sizeof(T))) {
      T* dense = reinterpret_cast<T*>(to);
      for (std::int64_t i = 0; i < n; ++i) dense[i] = convert<T>(from[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        *reinterpret_cast<T*>(to + i * step) = convert<T>(from[i]);
    }
  });
}

template void load_row(DType, const char*, std::int64_t, std::int64_t, float*);
template void load_row(DType, const char*, std::int64_t, std::int64_t, double*);
template void load_row(DType, const char*, std::int64_t, std::int64_t, std::int64_t*);
template void store_row(DType, const float*, std::int64_t, char*, std::int64_t);
template void store_row(DType, const double*, std::int64_t, char*, std::int64_t);
template void store_row(DType, const std::int64_t*, std::int64_t, char*, std::int64_t);

}  // namespace rondo::cpu
