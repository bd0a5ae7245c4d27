#pragma once
// The folding of one dense run of numbers.
//
// A run is folded in sixteen lanes that are joined as a tree at the end: the additions do not wait
// for each other (so the loop runs at the speed of memory), and the error of a sum grows with n /
// 16 instead of n. Callers keep runs short and join them in a wider type; see reduce.cpp.

#include <array>
#include <cstdint>

#include "tensor/fold.h"

namespace rondo::cpu {

/// The fold of p[0 … n-1].
template <FoldOp op, class C>
C fold_run(const C* p, std::int64_t n) {
  using F = Fold<op>;
  constexpr int lanes = 16;
  std::array<C, lanes> lane;
  lane.fill(F::template identity<C>());
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#pragma omp simd
    for (int k = 0; k < lanes; ++k) lane[k] = F::join(lane[k], F::map(p[i + k]));
  }
  for (int k = 0; i < n; ++i, ++k) lane[k] = F::join(lane[k], F::map(p[i]));
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) lane[k] = F::join(lane[k], lane[k + width]);
  }
  return lane[0];
}

}  // namespace rondo::cpu
