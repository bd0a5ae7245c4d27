// Layer norm of the rows of x (rows, n). Each row has its own mean and deviation (for RMS norm,
// mean and mean(g) are 0):
//
//   h = (x - mean) invstd,   invstd = 1 / sqrt(var + eps),   y = h gamma + beta
//   dx = invstd (g - mean(g) - h mean(g h)),   g = dy gamma
//   dgamma = Σ_rows dy h,   dbeta = Σ_rows dy
//
// The two sums over rows are added in f32 over 64 rows, and then in f64. With many rows, the rows
// are split into parts, and the same pass computes dx. With few long rows, or without dx, the
// columns are split into parts. The choice and the number of parts depend only on the sizes, so the
// bits do not depend on the number of threads.

#include <algorithm>
#include <array>
#include <vector>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t rows_per_block = 64, most_parts = 64, columns_per_part = 512;

/// gamma or beta, or `instead` filled with n times `value`.
const float* factors(const Tensor& v, std::int64_t n, float value, std::vector<float>& instead) {
  if (v.defined()) return v.data_ptr<float>();
  instead.assign(static_cast<std::size_t>(n), value);
  return instead.data();
}

/// The inputs from which the gradients are computed.
struct Rows {
  const float *dy, *x, *mean, *invstd;
  std::int64_t count, n;
  Rows(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd)
      : dy(dy.data_ptr<float>()),
        x(x.data_ptr<float>()),
        mean(mean.defined() ? mean.data_ptr<float>() : nullptr),
        invstd(invstd.data_ptr<float>()),
        count(x.size(0)),
        n(x.size(1)) {}
  const float* mean_of(std::int64_t r) const { return mean == nullptr ? nullptr : mean + r; }
};

/// sums (2, n): dgamma and dbeta.
void sum_by_columns(const Rows& rows, double* sums) {
  const std::int64_t n = rows.n, parts = (n + columns_per_part - 1) / columns_per_part;
  parallel_for(parts, rows.count * n, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, columns_per_part> gamma, beta;
    for (std::int64_t first = begin * columns_per_part; first < std::min(n, end * columns_per_part);
         first += columns_per_part) {
      const std::int64_t width = std::min(columns_per_part, n - first);
      for (std::int64_t r = 0; r < rows.count;) {
        gamma.fill(0);
        beta.fill(0);
        for (const std::int64_t last = std::min(rows.count, r + rows_per_block); r < last; ++r)
          kernels().layer_norm.sums(rows.dy + r * n + first, rows.x + r * n + first, width,
                                    rows.mean == nullptr ? 0 : rows.mean[r], rows.invstd[r],
                                    gamma.data(), beta.data());
        for (std::int64_t i = 0; i < width; ++i) {
          sums[first + i] += static_cast<double>(gamma[i]);
          sums[n + first + i] += static_cast<double>(beta[i]);
        }
      }
    }
  });
}

}  // namespace

bool CpuBackend::has_layer_norm(const Tensor& x) const { return x.dtype() == f32; }

void CpuBackend::do_layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                               const Tensor& y, const Tensor& mean, const Tensor& invstd) {
  const std::int64_t n = x.size(1);
  std::vector<float> ones, zeros;
  const float* scale = factors(gamma, n, 1, ones);
  const float* shift = factors(beta, n, 0, zeros);
  const auto* in = x.data_ptr<float>();
  auto *out = y.data_ptr<float>(), *s = invstd.data_ptr<float>();
  auto* m = mean.defined() ? mean.data_ptr<float>() : nullptr;
  parallel_for(x.size(0), x.numel(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      kernels().layer_norm.forward(in + r * n, n, scale, shift, eps, out + r * n,
                                   m == nullptr ? nullptr : m + r, s + r);
  });
}

void CpuBackend::do_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                        const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                        const Tensor& dgamma, const Tensor& dbeta) {
  const Rows rows(dy, x, mean, invstd);
  const std::int64_t n = rows.n, blocks = (rows.count + rows_per_block - 1) / rows_per_block;
  std::vector<float> ones;
  const float* scale = factors(gamma, n, 1, ones);
  auto* out = dx.defined() ? dx.data_ptr<float>() : nullptr;
  const bool sums_wanted = dgamma.defined() || dbeta.defined();
  const bool by_columns = !dx.defined() || (blocks < 16 && n >= 2 * columns_per_part);

  std::vector<double> sums(sums_wanted ? static_cast<std::size_t>(2 * n) : 0);  // dgamma, dbeta
  if (!sums_wanted || by_columns) {
    parallel_for(out ? rows.count : 0, x.numel(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        kernels().layer_norm.backward(rows.dy + r * n, rows.x + r * n, n, scale, rows.mean_of(r),
                                      rows.invstd[r], out + r * n, nullptr, nullptr);
    });
    if (sums_wanted) sum_by_columns(rows, sums.data());
  } else {
    const std::int64_t parts = std::min(blocks, most_parts);
    sums.resize(static_cast<std::size_t>(parts * 2 * n));  // for each part
    parallel_for(parts, x.numel(), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> block(static_cast<std::size_t>(2 * n));
      for (std::int64_t part = begin; part < end; ++part) {
        double* sum = sums.data() + part * 2 * n;
        for (std::int64_t b = part * blocks / parts; b < (part + 1) * blocks / parts; ++b) {
          std::fill(block.begin(), block.end(), 0.0F);
          const std::int64_t last = std::min(rows.count, (b + 1) * rows_per_block);
          for (std::int64_t r = b * rows_per_block; r < last; ++r)
            kernels().layer_norm.backward(rows.dy + r * n, rows.x + r * n, n, scale,
                                          rows.mean_of(r), rows.invstd[r], out + r * n,
                                          block.data(), block.data() + n);
          for (std::int64_t i = 0; i < 2 * n; ++i) sum[i] += static_cast<double>(block[i]);
        }
      }
    });
    for (std::int64_t part = 1; part < parts; ++part)
      for (std::int64_t i = 0; i < 2 * n; ++i) sums[i] += sums[part * 2 * n + i];
  }
  const auto round = [n](const double* from, const Tensor& to) {
    for (std::int64_t i = 0; to.defined() && i < n; ++i)
      to.data_ptr<float>()[i] = static_cast<float>(from[i]);
  };
  round(sums.data(), dgamma);
  round(sums.data() + n, dbeta);
}

}  // namespace rondo::cpu
