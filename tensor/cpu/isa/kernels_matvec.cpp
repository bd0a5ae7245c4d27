// A matrix times one vector, the main operation in inference of a single input; compiled once for
// each instruction set (table.h). Each weight is used once, so the speed is that of the memory:
// four rows at a time keep enough loads in flight.
#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

/// sums[r] = Σ_k w[r][k] x[k] for `rows` rows.
template <int rows>
inline void dot_rows(const float* w, std::int64_t stride, const float* x, std::int64_t n,
                     float* sums) {
  float sum[rows] = {};
  if constexpr (rows == 4) {
    float a = 0, b = 0, c = 0, d = 0;
    const float *w0 = w, *w1 = w + stride, *w2 = w1 + stride, *w3 = w2 + stride;
#pragma omp simd reduction(+ : a, b, c, d)
    for (std::int64_t k = 0; k < n; ++k) {
      a = multiply_add(w0[k], x[k], a);
      b = multiply_add(w1[k], x[k], b);
      c = multiply_add(w2[k], x[k], c);
      d = multiply_add(w3[k], x[k], d);
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
  } else {
    float a = 0;
#pragma omp simd reduction(+ : a)
    for (std::int64_t k = 0; k < n; ++k) a = multiply_add(w[k], x[k], a);
    sum[0] = a;
  }
  for (int r = 0; r < rows; ++r) sums[r] = sum[r];
}

void matvec(const float* w, std::int64_t stride, const float* x, std::int64_t rows, std::int64_t n,
            float* y) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) dot_rows<4>(w + r * stride, stride, x, n, y + r);
  for (; r < rows; ++r) dot_rows<1>(w + r * stride, stride, x, n, y + r);
}

}  // namespace

extern const MatvecKernel matvec_f32;
const MatvecKernel matvec_f32 = matvec;

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
