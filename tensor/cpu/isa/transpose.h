// Transposes squares of floats in registers. Only for files that are compiled once for each
// instruction set (table.h).
#pragma once

#include <utility>

#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

#if __has_builtin(__builtin_shufflevector)
/// One step of the transposition. The rows a and b are `step` apart. Cuts both into groups of
/// `step` columns, and swaps each odd group of a with the even group of b to its left.
template <int step, int... column>
inline void exchange(Vec& a, Vec& b, std::integer_sequence<int, column...>) {
  const Vec upper =
      __builtin_shufflevector(a, b, ((column & step) != 0 ? lanes + column - step : column)...);
  b = __builtin_shufflevector(a, b, ((column & step) != 0 ? lanes + column : column + step)...);
  a = upper;
}
template <int step>
inline void exchange_all(Vec* rows) {
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r)
    if ((r & step) == 0)
      exchange<step>(rows[r], rows[r + step], std::make_integer_sequence<int, lanes>{});
  if constexpr (2 * step < lanes) exchange_all<2 * step>(rows);
}
#endif

/// Transposes a square of `lanes` rows.
inline void transpose(const float* from, Index from_stride, float* to, Index to_stride) {
#if __has_builtin(__builtin_shufflevector)
  Vec rows[lanes];
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) rows[r] = load(from + r * from_stride);
  exchange_all<1>(rows);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(to + r * to_stride, rows[r]);
#else
  for (int r = 0; r < lanes; ++r)
    for (int c = 0; c < lanes; ++c) to[c * to_stride + r] = from[r * from_stride + c];
#endif
}

}  // namespace
}  // namespace rondo::cpu::isa::RONDO_ISA_SET
