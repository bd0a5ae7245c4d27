#pragma once
// Fold: the element-wise rule of each reduction, the same on all devices.

#include <limits>
#include <type_traits>

#include "tensor/functors.h"

namespace rondo {

/// The type in which partial results of type C are combined, so that a sum's error does not grow
/// with its length.
template <class C>
using Wide = std::conditional_t<std::is_same_v<C, float>, double, C>;

/// identity: the value of an empty reduction; map: the contribution of one element; join: combines
/// two partial results.
template <FoldOp op>
struct Fold {
  template <class C>
  RONDO_HD static constexpr C identity() {
    using Limits = std::numeric_limits<C>;
    if (op == FoldOp::max) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    if (op == FoldOp::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
    return op == FoldOp::prod || op == FoldOp::all ? C(1) : C(0);
  }
  template <class C>
  RONDO_HD static C map(C v) {
    if constexpr (op == FoldOp::sum_squares) return functors::times(v, v);
    if constexpr (op == FoldOp::all || op == FoldOp::any) return v != C(0) ? C(1) : C(0);
    return v;
  }
  template <class C>
  RONDO_HD static C join(C a, C b) {
    if constexpr (op == FoldOp::sum || op == FoldOp::sum_squares) return functors::plus(a, b);
    if constexpr (op == FoldOp::prod) return functors::times(a, b);
    // A NaN in b replaces a. A NaN in a stays, because every comparison with it is false.
    if constexpr (op == FoldOp::max) return ((b > a) | (b != b)) ? b : a;
    if constexpr (op == FoldOp::min) return ((b < a) | (b != b)) ? b : a;
    if constexpr (op == FoldOp::all) return b < a ? b : a;
    if constexpr (op == FoldOp::any) return b > a ? b : a;
  }
};

/// Calls `f.operator()<op>()` with the FoldOp as a template argument.
template <class F>
void visit_reduce(FoldOp op, F&& f) {
  switch (op) {
    case FoldOp::sum:
      return f.template operator()<FoldOp::sum>();
    case FoldOp::prod:
      return f.template operator()<FoldOp::prod>();
    case FoldOp::max:
      return f.template operator()<FoldOp::max>();
    case FoldOp::min:
      return f.template operator()<FoldOp::min>();
    case FoldOp::all:
      return f.template operator()<FoldOp::all>();
    case FoldOp::any:
      return f.template operator()<FoldOp::any>();
    case FoldOp::sum_squares:
      return f.template operator()<FoldOp::sum_squares>();
  }
}

}  // namespace rondo
