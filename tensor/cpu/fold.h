#pragma once
// Folds of dense arrays with this machine's kernels (isa/kernels_fold.cpp).

#include "tensor/cpu/isa/table.h"
#include "tensor/fold.h"

namespace rondo::cpu {

/// C: double, float or int64_t.
template <class C>
const FoldKernels<C>& fold_kernels() {
  if constexpr (std::is_same_v<C, float>) {
    return kernels().fold_f32;
  } else if constexpr (std::is_same_v<C, double>) {
    return kernels().fold_f64;
  } else {
    return kernels().fold_i64;
  }
}

/// The fold of p[0 … n-1].
template <FoldOp op, class C>
C fold_run(const C* p, std::int64_t n) {
  return fold_kernels<C>().run(op, p, n);
}

}  // namespace rondo::cpu
