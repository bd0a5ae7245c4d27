#pragma once
// How two elements are combined into one, the same on all devices. Private to dist.

#include <type_traits>

#include "dist/collectives/reduce.h"
#include "tensor/dtype.h"

namespace rondo::dist {

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>;
template <class T>
inline constexpr bool is_float = std::is_floating_point_v<T> || is_small_float<T>;

/// The type in which an addition of T is computed. Integers wrap around, so they are added as
/// unsigned.
template <class T, bool = std::is_integral_v<T> && !std::is_same_v<T, bool>>
struct Working {
  using type = std::conditional_t<is_small_float<T>, float, T>;
};
template <class T>
struct Working<T, true> {
  using type = std::make_unsigned_t<T>;
};

/// a op b; avg adds. min and max propagate NaN: a minimum that hides a NaN would hide a broken
/// rank.
template <ReduceOp op, class T>
RONDO_HD T combined(T a, T b) {
  using W = typename Working<T>::type;
  if constexpr (std::is_same_v<T, bool>) {
    return op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bor ? a || b : a && b;
  } else if constexpr (op == ReduceOp::sum || op == ReduceOp::avg) {
    // + promotes u8 and i8 to int; the conversion back to T wraps around again.
    return T(W(a) + W(b));
  } else if constexpr (op == ReduceOp::prod) {
    return T(W(a) * W(b));
  } else if constexpr (op == ReduceOp::band || op == ReduceOp::bor) {
    if constexpr (is_float<T>)
      return a;  // refused by check_reducible
    else
      return T(op == ReduceOp::band ? W(a) & W(b) : W(a) | W(b));
  } else if constexpr (is_float<T>) {
    const W x = W(a), y = W(b);
    return T((op == ReduceOp::min ? x < y : x > y) || x != x ? x : y);
  } else {
    return (op == ReduceOp::min ? a < b : a > b) ? a : b;
  }
}

/// x / divisor
template <class W>
struct DividedBy {
  W divisor;
  RONDO_HD W operator()(W x) const { return x / divisor; }
};

/// quotient(a + b), rounded once.
template <class T, class Quotient>
RONDO_HD T averaged(T a, T b, Quotient quotient) {
  using W = typename Working<T>::type;
  return T(quotient(W(a) + W(b)));
}

}  // namespace rondo::dist
