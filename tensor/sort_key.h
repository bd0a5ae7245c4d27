#pragma once
// Sorting by unsigned keys, on the CPU and on a GPU: keys have the order of the numbers, NaN is the
// largest, and -0 equals 0. The complement of a key sorts in descending order.

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/dtype.h"

namespace rondo {

/// C: float, double or int64_t.
template <class C>
using SortKey = std::conditional_t<std::is_same_v<C, float>, std::uint32_t, std::uint64_t>;

template <class C>
RONDO_HD SortKey<C> sort_key(C x) {
  constexpr SortKey<C> all = ~SortKey<C>{0}, sign = all ^ (all >> 1);
  if constexpr (std::is_floating_point_v<C>) {
    if (x != x) return all;
    const auto bits = std::bit_cast<SortKey<C>>(x == 0 ? C{0} : x);
    return bits & sign ? ~bits : bits | sign;  // negative numbers in reverse, below the others
  } else {
    return static_cast<SortKey<C>>(x) ^ sign;
  }
}

}  // namespace rondo
