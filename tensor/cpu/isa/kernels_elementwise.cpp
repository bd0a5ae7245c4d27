// Element-wise loops over dense rows; compiled once for each instruction set (table.h).
#include "tensor/cpu/isa/bf16.h"
#include "tensor/cpu/isa/vec.h"
#include "tensor/functors.h"

namespace rondo::cpu::isa::RONDO_ISA {
namespace {

template <class T>
void unary(UnaryOp op, OpParams params, const T* x, T* y, std::int64_t n) {
  visit_unary<T>(op, params, [=](auto f) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  });
}

template <class T>
void binary(BinaryOp op, OpParams params, const T* a, const T* b, T* y, std::int64_t n) {
  visit_binary<T>(op, params, [=](auto f) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  });
}

void from_bf16(const Bf16Bits* x, float* y, std::int64_t n) {
  Index i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load(x + i));
  for (; i < n; ++i) y[i] = widen(x[i]);
}

void to_bf16(const float* x, Bf16Bits* y, std::int64_t n) {
  Index i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load(x + i));
  for (; i < n; ++i) narrow(x[i], y[i]);
}

}  // namespace

extern const ElementwiseKernels elementwise;
const ElementwiseKernels elementwise{unary<float>,  unary<double>,  unary<std::int64_t>,
                                     binary<float>, binary<double>, binary<std::int64_t>,
                                     from_bf16,     to_bf16};

}  // namespace rondo::cpu::isa::RONDO_ISA
