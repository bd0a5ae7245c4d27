#pragma once
// Fold: the element-wise rule of each reduction, and the folding of one dense run of numbers.
//
// A run is folded in sixteen lanes that are joined as a tree at the end: the additions do not wait
// for each other (so the loop runs at the speed of memory), and the error of a sum grows with n /
// 16 instead of n. Callers keep runs short and join them in a wider type; see reduce.cpp.

#include <array>
#include <cstdint>
#include <limits>

#include "tensor/functors.h"

namespace rondo::cpu {

/// identity: the value of an empty reduction; map: what an element counts as; join: two partial
/// results in one.
template <ReduceOp op>
struct Fold {
  template <class C>
  static constexpr C identity() {
    using Limits = std::numeric_limits<C>;
    if (op == ReduceOp::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    if (op == ReduceOp::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
    return op == ReduceOp::prod || op == ReduceOp::all ? C(1) : C(0);
  }
  template <class C>
  static C map(C v) {
    if constexpr (op == ReduceOp::sum_squares) return functors::times(v, v);
    if constexpr (op == ReduceOp::all || op == ReduceOp::any) return v != C(0) ? C(1) : C(0);
    return v;
  }
  template <class C>
  static C join(C a, C b) {
    if constexpr (op == ReduceOp::sum || op == ReduceOp::sum_squares) return functors::plus(a, b);
    if constexpr (op == ReduceOp::prod) return functors::times(a, b);
    // A NaN in b is taken; one in a stays, since no comparison with it is true.
    if constexpr (op == ReduceOp::max) return (b > a) | (b != b) ? b : a;
    if constexpr (op == ReduceOp::min) return (b < a) | (b != b) ? b : a;
    if constexpr (op == ReduceOp::all) return b < a ? b : a;
    if constexpr (op == ReduceOp::any) return b > a ? b : a;
  }
};

/// The fold of p[0 … n-1].
template <ReduceOp op, class C>
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
