#pragma once
// The sum of exponentials of a line, in one pass (Milakov and Gimelshein 2018): the sum is relative
// to the largest number so far, and is scaled when a larger one comes.

#include <cmath>
#include <limits>

#include "tensor/cuda/lines.cuh"
#include "tensor/reduction_rule.h"

namespace rondo::cuda {

template <class C>
struct ExpSum {
  C top = ReductionRule<ReductionOp::max>::identity<C>();  // the largest x; NaN if one is NaN
  C sum = 0;                                               // Σ exp(x - top)

  /// Adds the numbers of one thread. +inf and NaN make the sum NaN.
  template <class Numbers>
  RONDO_HD void add(const Numbers& numbers) {
    C larger = top;
    for (C v : numbers.v) larger = ReductionRule<ReductionOp::max>::join(larger, v);
    raise(larger);
    for (C v : numbers.v) sum += std::exp(v - base());
  }
  /// Joins the sums of all threads of the group.
  template <class Group>
  RONDO_HD void join(const Group& group) {
    raise(group.reduce(top, [](C a, C b) { return ReductionRule<ReductionOp::max>::join(a, b); }));
    sum = group.reduce(sum, [](C a, C b) { return a + b; });
  }

 private:
  /// Where all numbers so far are -inf, their exponentials are 0.
  RONDO_HD C base() const { return top == -std::numeric_limits<C>::infinity() ? C(0) : top; }
  RONDO_HD void raise(C larger) {
    if (larger == top) return;
    sum *= std::exp(top - larger);
    top = larger;
  }
};

}  // namespace rondo::cuda
