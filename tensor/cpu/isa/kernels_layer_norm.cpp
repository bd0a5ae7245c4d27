// Layer norm (RMS norm if mean is null) of one dense row of f32, and its gradient; compiled once
// for each instruction set (table.h). A row is read two or three times, after the first time from
// the first-level cache. Sums are kept in f64.
#include <cmath>

#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

void forward(const float* x, std::int64_t n, const float* gamma, const float* beta, double eps,
             float* y, float* mean, float* invstd) {
  double sum = 0, squares = 0;
  if (mean != nullptr) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  }
  const auto m = static_cast<float>(sum / static_cast<double>(n));
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < n; ++i) {
    const float centered = x[i] - m;
    squares += static_cast<double>(centered * centered);
  }
  const auto s = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = multiply_add((x[i] - m) * s, gamma[i], beta[i]);
  if (mean != nullptr) *mean = m;
  *invstd = s;
}

/// With `affine` also adds dy_i h_i to dgamma_i and dy_i to dbeta_i.
template <bool affine>
inline void backward_row(const float* dy, const float* x, std::int64_t n, const float* gamma,
                         const float* mean, float invstd, float* dx, float* dgamma, float* dbeta) {
  const float m = mean != nullptr ? *mean : 0;
  double sum_g = 0, sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (std::int64_t i = 0; i < n; ++i) {
    const float h = (x[i] - m) * invstd, g = dy[i] * gamma[i];
    sum_g += static_cast<double>(g);
    sum_gh += static_cast<double>(g * h);
    if constexpr (affine) {
      dgamma[i] = multiply_add(dy[i], h, dgamma[i]);
      dbeta[i] += dy[i];
    }
  }
  const float mean_g = mean != nullptr ? static_cast<float>(sum_g / static_cast<double>(n)) : 0;
  const auto mean_gh = static_cast<float>(sum_gh / static_cast<double>(n));
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] =
        invstd * multiply_add((m - x[i]) * invstd, mean_gh, multiply_add(dy[i], gamma[i], -mean_g));
}

void backward(const float* dy, const float* x, std::int64_t n, const float* gamma,
              const float* mean, float invstd, float* dx, float* dgamma, float* dbeta) {
  (dgamma != nullptr ? backward_row<true> : backward_row<false>)(dy, x, n, gamma, mean, invstd, dx,
                                                                 dgamma, dbeta);
}

void sums(const float* dy, const float* x, std::int64_t n, float mean, float invstd, float* dgamma,
          float* dbeta) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    dgamma[i] = multiply_add(dy[i], (x[i] - mean) * invstd, dgamma[i]);
    dbeta[i] += dy[i];
  }
}

}  // namespace

extern const LayerNormKernels layer_norm;
const LayerNormKernels layer_norm{forward, backward, sums};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
