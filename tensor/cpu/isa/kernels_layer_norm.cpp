// Layer norm (RMS norm if mean is null) of one dense row of f32 or bf16, and its gradient; compiled
// once for each instruction set (table.h). A row is read two or three times, after the first time
// from the first-level cache. Sums are kept in f64.
#include <cmath>

#include "tensor/cpu/isa/bf16.h"
#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

template <class S>
void forward(const S* x, std::int64_t n, const float* gamma, const float* beta, double eps, S* y,
             float* mean, float* invstd) {
  double sum = 0, squares = 0;
  if (mean != nullptr) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(widen(x[i]));
  }
  const auto m = static_cast<float>(sum / static_cast<double>(n));
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < n; ++i) {
    const float centered = widen(x[i]) - m;
    squares += static_cast<double>(centered * centered);
  }
  const auto s = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    narrow(multiply_add((widen(x[i]) - m) * s, gamma[i], beta[i]), y[i]);
  if (mean != nullptr) *mean = m;
  *invstd = s;
}

/// With `affine` also adds dy_i h_i to dgamma_i and dy_i to dbeta_i.
template <bool affine, class S>
inline void backward_row(const S* dy, const S* x, std::int64_t n, const float* gamma,
                         const float* mean, float invstd, S* dx, float* dgamma, float* dbeta) {
  const float m = mean != nullptr ? *mean : 0;
  double sum_g = 0, sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (std::int64_t i = 0; i < n; ++i) {
    const float slope = widen(dy[i]), h = (widen(x[i]) - m) * invstd, g = slope * gamma[i];
    sum_g += static_cast<double>(g);
    sum_gh += static_cast<double>(g * h);
    if constexpr (affine) {
      dgamma[i] = multiply_add(slope, h, dgamma[i]);
      dbeta[i] += slope;
    }
  }
  const float mean_g = mean != nullptr ? static_cast<float>(sum_g / static_cast<double>(n)) : 0;
  const auto mean_gh = static_cast<float>(sum_gh / static_cast<double>(n));
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    narrow(invstd * multiply_add((m - widen(x[i])) * invstd, mean_gh,
                                 multiply_add(widen(dy[i]), gamma[i], -mean_g)),
           dx[i]);
}

template <class S>
void backward(const S* dy, const S* x, std::int64_t n, const float* gamma, const float* mean,
              float invstd, S* dx, float* dgamma, float* dbeta) {
  (dgamma != nullptr ? backward_row<true, S> : backward_row<false, S>)(dy, x, n, gamma, mean,
                                                                       invstd, dx, dgamma, dbeta);
}

template <class S>
void sums(const S* dy, const S* x, std::int64_t n, float mean, float invstd, float* dgamma,
          float* dbeta) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    dgamma[i] = multiply_add(widen(dy[i]), (widen(x[i]) - mean) * invstd, dgamma[i]);
    dbeta[i] += widen(dy[i]);
  }
}

}  // namespace

extern const LayerNormKernels<float> layer_norm;
extern const LayerNormKernels<Bf16Bits> layer_norm_bf16;
const LayerNormKernels<float> layer_norm{forward, backward, sums};
const LayerNormKernels<Bf16Bits> layer_norm_bf16{forward, backward, sums};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
