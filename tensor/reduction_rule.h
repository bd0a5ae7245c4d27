#pragma once
// ReductionRule: the element-wise rule of each reduction, the same on all devices.

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
template <ReductionOp op>
struct ReductionRule {
  template <class C>
  RONDO_HD static constexpr C identity() {
    using Limits = std::numeric_limits<C>;
    if (op == ReductionOp::max)
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    if (op == ReductionOp::min) return Limits::has_infinity ? Limits::infinity() : Limits::max();
    return op == ReductionOp::prod || op == ReductionOp::all ? C(1) : C(0);
  }
  template <class C>
  RONDO_HD static C map(C v) {
    if constexpr (op == ReductionOp::sum_squares) return functors::times(v, v);
    if constexpr (op == ReductionOp::all || op == ReductionOp::any) return v != C(0) ? C(1) : C(0);
    return v;
  }
  template <class C>
  RONDO_HD static C join(C a, C b) {
    if constexpr (op == ReductionOp::sum || op == ReductionOp::sum_squares)
      return functors::plus(a, b);
    if constexpr (op == ReductionOp::prod) return functors::times(a, b);
    // A NaN in b replaces a. A NaN in a stays, because every comparison with it is false.
    if constexpr (op == ReductionOp::max) return ((b > a) | (b != b)) ? b : a;
    if constexpr (op == ReductionOp::min) return ((b < a) | (b != b)) ? b : a;
    if constexpr (op == ReductionOp::all) return b < a ? b : a;
    if constexpr (op == ReductionOp::any) return b > a ? b : a;
  }
};

/// Calls `f.operator()<op>()` with the ReductionOp as a template argument.
template <class F>
void visit_reduce(ReductionOp op, F&& f) {
  switch (op) {
    case ReductionOp::sum:
      return f.template operator()<ReductionOp::sum>();
    case ReductionOp::prod:
      return f.template operator()<ReductionOp::prod>();
    case ReductionOp::max:
      return f.template operator()<ReductionOp::max>();
    case ReductionOp::min:
      return f.template operator()<ReductionOp::min>();
    case ReductionOp::all:
      return f.template operator()<ReductionOp::all>();
    case ReductionOp::any:
      return f.template operator()<ReductionOp::any>();
    case ReductionOp::sum_squares:
      return f.template operator()<ReductionOp::sum_squares>();
  }
}

}  // namespace rondo
