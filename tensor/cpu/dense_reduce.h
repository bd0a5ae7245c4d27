#pragma once
// Reductions of dense arrays with this machine's kernels (isa/kernels_reduce.cpp).

#include "tensor/cpu/isa/table.h"
#include "tensor/reduction_rule.h"

namespace rondo::cpu {

/// C: double, float or int64_t.
template <class C>
const ReductionKernels<C>& reduction_kernels() {
  if constexpr (std::is_same_v<C, float>) {
    return kernels().reduce_f32;
  } else if constexpr (std::is_same_v<C, double>) {
    return kernels().reduce_f64;
  } else {
    return kernels().reduce_i64;
  }
}

/// The reduction of p[0 … n-1].
template <ReductionOp op, class C>
C reduce_run(const C* p, std::int64_t n) {
  C result;
  reduction_kernels<C>().runs(op, p, 1, 0, n, &result);
  return result;
}

}  // namespace rondo::cpu
