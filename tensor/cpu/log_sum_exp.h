#pragma once
// log Σ exp(x) of one dense line: in f32 with this machine's kernels, in f64 computed here.

#include <cmath>

#include "tensor/cpu/dense_reduce.h"

namespace rondo::cpu {

/// log Σ_i exp(x_i) = top + log_sum with top = max x; see LogSumExp in isa/table.h.
template <class C>
struct LogSum {
  C top;
  double log_sum;
};
inline LogSum<float> log_sum_exp(const float* x, std::int64_t n) {
  const LogSumExp sum = kernels().softmax.log_sum_exp(x, n);
  return {sum.top, sum.log_sum};
}
inline LogSum<double> log_sum_exp(const double* x, std::int64_t n) {
  const double top = reduce_run<ReductionOp::max>(x, n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return {top, std::log(sum)};
}

}  // namespace rondo::cpu
