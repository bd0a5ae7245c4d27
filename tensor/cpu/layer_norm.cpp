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
// bits do not depend on the number of threads. The kernels read and write rows of f32 and of bf16;
// rows of f16 are widened to f32 one at a time. Results are rounded once.

#include <algorithm>
#include <array>
#include <vector>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t rows_per_block = 64, most_parts = 64, columns_per_part = 512;

/// gamma or beta in f32, or n times `value`.
std::vector<float> factors(const Tensor& v, std::int64_t n, float value) {
  std::vector<float> all(static_cast<std::size_t>(n), value);
  if (v.defined()) load(v.dtype(), v.data_ptr(), 0, 1, n, all.data());
  return all;
}

template <class S>
constexpr DType row_dtype = std::is_same_v<S, Bf16Bits> ? bf16 : f32;

template <class S>
const LayerNormKernels<S>& layer_norm_kernels() {
  if constexpr (std::is_same_v<S, Bf16Bits>)
    return kernels().layer_norm_bf16;
  else
    return kernels().layer_norm;
}

/// n elements of a row as S. What a kernel reads is the tensor's own memory, or an f32 copy of f16.
/// What it writes likewise, and `store` rounds the copy.
template <class S>
class Row {
 public:
  Row(const Tensor& t, std::int64_t n)
      : dtype_(t.dtype()), data_(t.data_ptr()), copies_(dtype_ != row_dtype<S>) {
    if (copies_) copy_.resize(static_cast<std::size_t>(n));
  }
  const S* load(std::int64_t offset, std::int64_t n) {
    if constexpr (std::is_same_v<S, float>) {
      if (copies_) cpu::load(dtype_, data_, offset, 1, n, copy_.data());
    }
    return to_write(offset);
  }
  S* to_write(std::int64_t offset) {
    return copies_ ? copy_.data() : static_cast<S*>(data_) + offset;
  }
  void store(std::int64_t offset, std::int64_t n) const {
    if constexpr (std::is_same_v<S, float>) {
      if (copies_) cpu::store(dtype_, data_, offset, 1, n, copy_.data());
    }
  }

 private:
  DType dtype_;
  void* data_;
  bool copies_;
  std::vector<S> copy_;
};

/// Calls f.operator()<S>() with the type of the rows: bf16 if all tensors are, otherwise f32.
template <class F, class... Ts>
void visit_rows(const F& f, const Ts&... tensors) {
  const bool all_bf16 = ((!tensors.defined() || tensors.dtype() == bf16) && ...);
  all_bf16 ? f.template operator()<Bf16Bits>() : f.template operator()<float>();
}

/// The inputs from which the gradients are computed.
struct Rows {
  const Tensor &dy, &x;
  const float *mean, *invstd;
  std::int64_t count, n;
  Rows(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd)
      : dy(dy),
        x(x),
        mean(mean.defined() ? mean.data_ptr<float>() : nullptr),
        invstd(invstd.data_ptr<float>()),
        count(x.size(0)),
        n(x.size(1)) {}
  const float* mean_of(std::int64_t r) const { return mean == nullptr ? nullptr : mean + r; }
};

/// Computes rows of dx, one after the other.
template <class S>
class BackwardRow {
 public:
  /// dx must be defined.
  BackwardRow(const Rows& rows, const std::vector<float>& scale, const Tensor& dx)
      : rows_(rows), scale_(scale), dy_(rows.dy, rows.n), x_(rows.x, rows.n), dx_(dx, rows.n) {}
  /// Also adds to dgamma and dbeta, unless they are null.
  void compute(std::int64_t r, float* dgamma, float* dbeta) {
    const std::int64_t n = rows_.n;
    layer_norm_kernels<S>().backward(dy_.load(r * n, n), x_.load(r * n, n), n, scale_.data(),
                                     rows_.mean_of(r), rows_.invstd[r], dx_.to_write(r * n), dgamma,
                                     dbeta);
    dx_.store(r * n, n);
  }

 private:
  const Rows& rows_;
  const std::vector<float>& scale_;
  Row<S> dy_, x_, dx_;
};

/// sums (2, n): dgamma and dbeta.
template <class S>
void sum_by_columns(const Rows& rows, double* sums) {
  const std::int64_t n = rows.n, parts = (n + columns_per_part - 1) / columns_per_part;
  parallel_for(parts, rows.count * n, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, columns_per_part> gamma, beta;
    Row<S> dy(rows.dy, columns_per_part), x(rows.x, columns_per_part);
    for (std::int64_t first = begin * columns_per_part; first < std::min(n, end * columns_per_part);
         first += columns_per_part) {
      const std::int64_t width = std::min(columns_per_part, n - first);
      for (std::int64_t r = 0; r < rows.count;) {
        gamma.fill(0);
        beta.fill(0);
        for (const std::int64_t last = std::min(rows.count, r + rows_per_block); r < last; ++r)
          layer_norm_kernels<S>().sums(dy.load(r * n + first, width), x.load(r * n + first, width),
                                       width, rows.mean == nullptr ? 0 : rows.mean[r],
                                       rows.invstd[r], gamma.data(), beta.data());
        for (std::int64_t i = 0; i < width; ++i) {
          sums[first + i] += static_cast<double>(gamma[i]);
          sums[n + first + i] += static_cast<double>(beta[i]);
        }
      }
    }
  });
}

/// dx, unless it is undefined, and sums (2, n): dgamma and dbeta, if they are wanted.
template <class S>
std::vector<double> backward(const Rows& rows, const std::vector<float>& scale, const Tensor& dx,
                             bool sums_wanted) {
  const std::int64_t n = rows.n, numel = rows.x.numel();
  const std::int64_t blocks = (rows.count + rows_per_block - 1) / rows_per_block;
  const bool by_columns = !dx.defined() || (blocks < 16 && n >= 2 * columns_per_part);

  std::vector<double> sums(sums_wanted ? static_cast<std::size_t>(2 * n) : 0);  // dgamma, dbeta
  if (!sums_wanted || by_columns) {
    parallel_for(dx.defined() ? rows.count : 0, numel, [&](std::int64_t begin, std::int64_t end) {
      BackwardRow<S> row(rows, scale, dx);
      for (std::int64_t r = begin; r < end; ++r) row.compute(r, nullptr, nullptr);
    });
    if (sums_wanted) sum_by_columns<S>(rows, sums.data());
  } else {
    const std::int64_t parts = std::min(blocks, most_parts);
    sums.resize(static_cast<std::size_t>(parts * 2 * n));  // for each part
    parallel_for(parts, numel, [&](std::int64_t begin, std::int64_t end) {
      BackwardRow<S> row(rows, scale, dx);
      std::vector<float> block(static_cast<std::size_t>(2 * n));
      for (std::int64_t part = begin; part < end; ++part) {
        double* sum = sums.data() + part * 2 * n;
        for (std::int64_t b = part * blocks / parts; b < (part + 1) * blocks / parts; ++b) {
          std::fill(block.begin(), block.end(), 0.0F);
          const std::int64_t last = std::min(rows.count, (b + 1) * rows_per_block);
          for (std::int64_t r = b * rows_per_block; r < last; ++r)
            row.compute(r, block.data(), block.data() + n);
          for (std::int64_t i = 0; i < 2 * n; ++i) sum[i] += static_cast<double>(block[i]);
        }
      }
    });
    for (std::int64_t part = 1; part < parts; ++part)
      for (std::int64_t i = 0; i < 2 * n; ++i) sums[i] += sums[part * 2 * n + i];
  }
  return sums;
}

}  // namespace

bool CpuBackend::has_layer_norm(const Tensor& x) const {
  return is_floating(x.dtype()) && x.dtype() != f64;
}

void CpuBackend::do_layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                               const Tensor& y, const Tensor& mean, const Tensor& invstd) {
  const std::int64_t n = x.size(1);
  const std::vector<float> scale = factors(gamma, n, 1), shift = factors(beta, n, 0);
  auto* s = invstd.data_ptr<float>();
  auto* m = mean.defined() ? mean.data_ptr<float>() : nullptr;
  const auto compute = [&]<class S>() {
    parallel_for(x.size(0), x.numel(), [&](std::int64_t begin, std::int64_t end) {
      Row<S> in(x, n), out(y, n);
      for (std::int64_t r = begin; r < end; ++r) {
        layer_norm_kernels<S>().forward(in.load(r * n, n), n, scale.data(), shift.data(), eps,
                                        out.to_write(r * n), m == nullptr ? nullptr : m + r, s + r);
        out.store(r * n, n);
      }
    });
  };
  visit_rows(compute, x, y);
}

void CpuBackend::do_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                        const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                        const Tensor& dgamma, const Tensor& dbeta) {
  const Rows rows(dy, x, mean, invstd);
  const std::int64_t n = rows.n;
  const std::vector<float> scale = factors(gamma, n, 1);
  const bool sums_wanted = dgamma.defined() || dbeta.defined();
  std::vector<double> sums;
  visit_rows([&]<class S>() { sums = backward<S>(rows, scale, dx, sums_wanted); }, dy, x, dx);
  const auto round = [n](const double* from, const Tensor& to) {
    if (!to.defined()) return;
    const std::vector<float> rounded(from, from + n);
    store(to.dtype(), to.data_ptr(), 0, 1, n, rounded.data());
  };
  if (!sums_wanted) return;
  round(sums.data(), dgamma);
  round(sums.data() + n, dbeta);
}

}  // namespace rondo::cpu
