// Layer norm of the rows of x (rows, n), each with its own mean and deviation:
//
//   h = (x - mean) invstd,   invstd = 1 / sqrt(var + eps),   y = h gamma + beta
//   dx = invstd (g - mean(g) - h mean(g h)),   g = dy gamma
//   dgamma = Σ_rows dy h,   dbeta = Σ_rows dy
//
// The two sums over rows are cut into parts by the number of rows alone, so that their bits do not
// depend on threads; a part adds up 64 rows in f32 and these sums in f64.

#include <algorithm>
#include <vector>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t rows_per_block = 64, most_parts = 64;

/// gamma or beta, or n times `value` instead.
const float* factors(const Tensor& v, std::int64_t n, float value, std::vector<float>& instead) {
  if (v.defined()) return v.data_ptr<float>();
  instead.assign(static_cast<std::size_t>(n), value);
  return instead.data();
}

}  // namespace

bool CpuBackend::has_layer_norm(const Tensor& x) const { return x.dtype() == f32; }

void CpuBackend::layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                            const Tensor& y, const Tensor& mean, const Tensor& invstd) {
  const std::int64_t n = x.size(1);
  std::vector<float> ones, zeros;
  const float* scale = factors(gamma, n, 1, ones);
  const float* shift = factors(beta, n, 0, zeros);
  const auto* in = x.data_ptr<float>();
  auto *out = y.data_ptr<float>(), *m = mean.data_ptr<float>(), *s = invstd.data_ptr<float>();
  parallel_for(x.size(0), x.numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      kernels().layer_norm.forward(in + r * n, n, scale, shift, eps, out + r * n, m + r, s + r);
  });
}

void CpuBackend::layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                     const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                     const Tensor& dgamma, const Tensor& dbeta) {
  const std::int64_t rows = x.size(0), n = x.size(1);
  std::vector<float> ones;
  const float* scale = factors(gamma, n, 1, ones);
  const auto *g = dy.data_ptr<float>(), *in = x.data_ptr<float>();
  const auto *m = mean.data_ptr<float>(), *s = invstd.data_ptr<float>();
  auto* out = dx.data_ptr<float>();

  if (!dgamma.defined() && !dbeta.defined()) {
    parallel_for(rows, x.numel(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        kernels().layer_norm.backward(g + r * n, in + r * n, n, scale, m[r], s[r], out + r * n,
                                      nullptr, nullptr);
    });
    return;
  }
  const std::int64_t blocks = (rows + rows_per_block - 1) / rows_per_block;
  const std::int64_t parts = std::min(blocks, most_parts);
  std::vector<double> sums(static_cast<std::size_t>(parts * 2 * n));  // dgamma, dbeta of each part
  parallel_for(parts, x.numel(), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> block(static_cast<std::size_t>(2 * n));
    for (std::int64_t part = begin; part < end; ++part) {
      double* sum = sums.data() + part * 2 * n;
      for (std::int64_t b = part * blocks / parts; b < (part + 1) * blocks / parts; ++b) {
        std::fill(block.begin(), block.end(), 0.0F);
        const std::int64_t last = std::min(rows, (b + 1) * rows_per_block);
        for (std::int64_t r = b * rows_per_block; r < last; ++r)
          kernels().layer_norm.backward(g + r * n, in + r * n, n, scale, m[r], s[r], out + r * n,
                                        block.data(), block.data() + n);
        for (std::int64_t i = 0; i < 2 * n; ++i) sum[i] += static_cast<double>(block[i]);
      }
    }
  });
  for (std::int64_t part = 1; part < parts; ++part)
    for (std::int64_t i = 0; i < 2 * n; ++i) sums[i] += sums[part * 2 * n + i];
  const auto round = [n](const double* from, const Tensor& to) {
    for (std::int64_t i = 0; to.defined() && i < n; ++i)
      to.data_ptr<float>()[i] = static_cast<float>(from[i]);
  };
  round(sums.data(), dgamma);
  round(sums.data() + n, dbeta);
}

}  // namespace rondo::cpu
