#pragma once
// Fold: the element-wise rule of each reduction, the same on all devices.

#include <limits>

#include "tensor/functors.h"

namespace rondo {

/// identity: the value of an empty reduction; map: what an element counts as; join: two partial
/// results in one.
template <ReduceOp op>
struct Fold {
  template <class C>
  RONDO_HD static constexpr C identity() {
    using Limits = std::numeric_limits<C>;
    if (op == ReduceOp::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    if (op == ReduceOp::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
    return op == ReduceOp::prod || op == ReduceOp::all ? C(1) : C(0);
  }
  template <class C>
  RONDO_HD static C map(C v) {
    if constexpr (op == ReduceOp::sum_squares) return functors::times(v, v);
    if constexpr (op == ReduceOp::all || op == ReduceOp::any) return v != C(0) ? C(1) : C(0);
    return v;
  }
  template <class C>
  RONDO_HD static C join(C a, C b) {
    if constexpr (op == ReduceOp::sum || op == ReduceOp::sum_squares) return functors::plus(a, b);
    if constexpr (op == ReduceOp::prod) return functors::times(a, b);
    // A NaN in b is taken; one in a stays, since no comparison with it is true.
    if constexpr (op == ReduceOp::max) return ((b > a) | (b != b)) ? b : a;
    if constexpr (op == ReduceOp::min) return ((b < a) | (b != b)) ? b : a;
    if constexpr (op == ReduceOp::all) return b < a ? b : a;
    if constexpr (op == ReduceOp::any) return b > a ? b : a;
  }
};

/// Calls f.operator()<op>() with the ReduceOp as a constant.
template <class F>
void visit_reduce(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::sum:
      return f.template operator()<ReduceOp::sum>();
    case ReduceOp::prod:
      return f.template operator()<ReduceOp::prod>();
    case ReduceOp::max:
      return f.template operator()<ReduceOp::max>();
    case ReduceOp::min:
      return f.template operator()<ReduceOp::min>();
    case ReduceOp::all:
      return f.template operator()<ReduceOp::all>();
    case ReduceOp::any:
      return f.template operator()<ReduceOp::any>();
    case ReduceOp::sum_squares:
      return f.template operator()<ReduceOp::sum_squares>();
  }
}

}  // namespace rondo
