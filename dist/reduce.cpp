#include "dist/reduce.h"

#include <cmath>
#include <ostream>
#include <type_traits>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>;

// The type in which one addition of T is done. Integers wrap, so they are added unsigned.
template <class T, bool = std::is_integral_v<T> && !std::is_same_v<T, bool>>
struct Working {
  using type = std::conditional_t<is_small_float<T>, float, T>;
};
template <class T>
struct Working<T, true> {
  using type = std::make_unsigned_t<T>;
};

// min and max let NaN through: a minimum that hides a NaN would hide a broken rank.
template <class W>
W smaller(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) return a < b || a != a ? a : b;
  return a < b ? a : b;
}
template <class W>
W larger(W a, W b) {
  if constexpr (std::is_floating_point_v<W>) return a > b || a != a ? a : b;
  return a > b ? a : b;
}

template <class T, class F>
void each(void* into, const void* from, std::int64_t count, F f) {
  auto* __restrict a = static_cast<T*>(into);
  const auto* __restrict b = static_cast<const T*>(from);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) a[i] = f(a[i], b[i]);
}

template <class T>
void combine_as(T* into, const T* from, std::int64_t n, ReduceOp op) {
  using W = typename Working<T>::type;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      // u8 and i8 are promoted to int by +, which the conversion back to T wraps again.
      return each<T>(into, from, n, [](T a, T b) { return T(W(a) + W(b)); });
    case ReduceOp::prod:
      return each<T>(into, from, n, [](T a, T b) { return T(W(a) * W(b)); });
    case ReduceOp::min:
      if constexpr (is_small_float<T>)
        return each<T>(into, from, n, [](T a, T b) { return T(smaller<W>(a, b)); });
      else
        return each<T>(into, from, n, [](T a, T b) { return smaller<T>(a, b); });
    case ReduceOp::max:
      if constexpr (is_small_float<T>)
        return each<T>(into, from, n, [](T a, T b) { return T(larger<W>(a, b)); });
      else
        return each<T>(into, from, n, [](T a, T b) { return larger<T>(a, b); });
  }
}

template <>
void combine_as<bool>(bool* into, const bool* from, std::int64_t n, ReduceOp op) {
  bool is_or = op == ReduceOp::sum || op == ReduceOp::max;
  for (std::int64_t i = 0; i < n; ++i) {
    into[i] = is_or ? into[i] || from[i] : into[i] && from[i];
  }
}

}  // namespace

const char* name_of(ReduceOp op) {
  static constexpr const char* names[] = {"sum", "avg", "min", "max", "prod"};
  return names[static_cast<int>(op)];
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << name_of(op); }

void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op) {
  visit_dtype(dtype, [&]<class T>() {
    combine_as<T>(static_cast<T*>(into), static_cast<const T*>(from), count, op);
  });
}

void combine_and_divide(void* into, const void* from, std::int64_t count, DType dtype,
                        int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T> || is_small_float<T>) {
      using W = typename Working<T>::type;
      W d = static_cast<W>(divisor);
      each<T>(into, from, count, [d](T a, T b) { return T((W(a) + W(b)) / d); });
    }
  });
}

void divide(void* data, std::int64_t count, DType dtype, int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T> || is_small_float<T>) {
      using W = typename Working<T>::type;
      W d = static_cast<W>(divisor);
      auto* a = static_cast<T*>(data);
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) a[i] = T(W(a[i]) / d);
    }
  });
}

void check_reducible(DType dtype, ReduceOp op) {
  require<DTypeError>(op != ReduceOp::avg || is_floating(dtype), "all_reduce: no avg of ", dtype,
                      ", which would have to be rounded; use sum");
}

}  // namespace rondo::dist
