// Reductions of dense runs and rows (tensor/reduction_rule.h); compiled once for each instruction
// set (table.h). A run is reduced in 32 parts, a long one of floats in 64, which are combined as a
// tree at the end. So additions do not wait for each other, the loop runs at the speed of memory,
// and the error of a sum grows with n / 32 instead of n. Callers keep runs short and combine them
// in a wider type.
#include "tensor/cpu/isa/table.h"
#include "tensor/reduction_rule.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

/// Joins the upper half of 2 * width values into the lower half, and repeats until one is left.
template <ReductionOp o, int width, class C>
inline void halve(C* part) {
#pragma omp simd
  for (int k = 0; k < width; ++k) part[k] = ReductionRule<o>::join(part[k], part[k + width]);
  if constexpr (width > 1) halve<o, width / 2>(part);
}

template <ReductionOp o, int parts, class C>
inline C run(const C* x, std::int64_t n) {
  using F = ReductionRule<o>;
  C part[parts];
  for (int k = 0; k < parts; ++k) part[k] = F::template identity<C>();
  std::int64_t i = 0;
  for (; i + parts <= n; i += parts) {
#pragma omp simd
    for (int k = 0; k < parts; ++k) part[k] = F::join(part[k], F::map(x[i + k]));
  }
  for (int k = 0; i < n; ++i, ++k) part[k] = F::join(part[k], F::map(x[i]));
  C joined[parts];  // a separate array, so that `part` stays in registers
  for (int k = 0; k < parts; ++k) joined[k] = part[k];
  halve<o, parts / 2>(joined);
  return joined[0];
}

template <class C>
void runs(ReductionOp op, const C* x, std::int64_t count, std::int64_t stride, std::int64_t n,
          C* y) {
  visit_reduce(op, [&]<ReductionOp o>() {
    const bool is_long = sizeof(C) == 4 && n >= 256;
    for (std::int64_t i = 0; i < count; ++i)
      y[i] = is_long ? run<o, 64>(x + i * stride, n) : run<o, 32>(x + i * stride, n);
  });
}

template <class C>
void rows(ReductionOp op, const C* const* x, std::int64_t count, std::int64_t width, C* total) {
  visit_reduce(op, [&]<ReductionOp o>() {
    using F = ReductionRule<o>;
    std::int64_t r = 0;
    for (; r + 4 <= count; r += 4) {  // four at a time: fewer accesses to `total`
      const C *a = x[r], *b = x[r + 1], *c = x[r + 2], *d = x[r + 3];
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) {
        C v = F::join(total[j], F::map(a[j]));
        v = F::join(v, F::map(b[j]));
        v = F::join(v, F::map(c[j]));
        total[j] = F::join(v, F::map(d[j]));
      }
    }
    for (; r < count; ++r) {
      const C* a = x[r];
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) total[j] = F::join(total[j], F::map(a[j]));
    }
  });
}

}  // namespace

extern const ReductionKernels<float> reduce_f32;
const ReductionKernels<float> reduce_f32{runs<float>, rows<float>};
extern const ReductionKernels<double> reduce_f64;
const ReductionKernels<double> reduce_f64{runs<double>, rows<double>};
extern const ReductionKernels<std::int64_t> reduce_i64;
const ReductionKernels<std::int64_t> reduce_i64{runs<std::int64_t>, rows<std::int64_t>};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
