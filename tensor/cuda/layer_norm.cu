// Layer norm and RMS norm of the rows of x (rows, n); tensor/cpu/layer_norm.cpp has the formulas.
// The threads of a group divide a row, and read it two or three times, after the first time from
// the cache. The gradients of gamma and beta are sums over rows: each thread adds some rows of one
// column, and `reduce` adds the results.

#include <algorithm>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/reduction_rule.h"

namespace rondo::cuda {
namespace {

/// The sum over all threads of a group, as a mean over n elements.
template <class C, class Group>
RONDO_HD C mean_over(const Group& group, Wide<C> sum, std::int64_t n) {
  const auto total = group.reduce(sum, [](Wide<C> a, Wide<C> b) { return a + b; });
  return static_cast<C>(total / static_cast<Wide<C>>(n));
}

template <class C, class T>
struct RowNorm {
  Lines<4> lines;  // x, gamma, beta, y
  bool scaled, shifted;
  C *mean, *invstd;  // mean is null for RMS norm
  C eps;
  std::int64_t length;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    using Line = Run<C, T>;
    const auto at = lines.starts.locate(row);
    const Line x(lines, at, 0), gamma(lines, at, 1), beta(lines, at, 2), y(lines, at, 3);
    const std::int64_t packs = length / Line::width;
    C m = 0, sum = 0;
    if (mean != nullptr) {
      Wide<C> total = 0;  // in C, the mean of equal numbers would not be that number
      for (std::int64_t i = group.thread(); i < packs; i += group.size())
        for (C v : x.load(i).v) total += v;
      m = mean_over<C>(group, total, length);
    }
    for (std::int64_t i = group.thread(); i < packs; i += group.size())
      for (C v : x.load(i).v) sum += (v - m) * (v - m);
    const C s = 1 / std::sqrt(mean_over<C>(group, sum, length) + eps);
    if (group.thread() == 0) {
      if (mean != nullptr) mean[row] = m;
      invstd[row] = s;
    }
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      auto numbers = x.load(i);
      const auto scale = gamma.load(i), shift = beta.load(i);
      for (int k = 0; k < Line::width; ++k)
        numbers.v[k] =
            (numbers.v[k] - m) * s * (scaled ? scale.v[k] : 1) + (shifted ? shift.v[k] : 0);
      y.store(i, numbers);
    }
  }
};

template <class C, class T>
struct RowNormGradient {
  Lines<4> lines;  // dy, x, gamma, dx
  bool scaled;
  const C *mean, *invstd;
  std::int64_t length;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    using Line = Run<C, T>;
    const auto at = lines.starts.locate(row);
    const Line dy(lines, at, 0), x(lines, at, 1), gamma(lines, at, 2), dx(lines, at, 3);
    const std::int64_t packs = length / Line::width;
    const C m = mean != nullptr ? mean[row] : 0, s = invstd[row];
    // g = dy gamma and h = (x - m) s, of a pack
    const auto load = [&](std::int64_t i, typename Line::Numbers& g, typename Line::Numbers& h) {
      g = dy.load(i);
      h = x.load(i);
      const auto scale = gamma.load(i);
      for (int k = 0; k < Line::width; ++k) {
        g.v[k] *= scaled ? scale.v[k] : 1;
        h.v[k] = (h.v[k] - m) * s;
      }
    };
    typename Line::Numbers g, h;
    C sum_g = 0, sum_gh = 0;
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      load(i, g, h);
      for (int k = 0; k < Line::width; ++k) {
        sum_g += g.v[k];
        sum_gh += g.v[k] * h.v[k];
      }
    }
    const C mean_g = mean != nullptr ? mean_over<C>(group, sum_g, length) : 0;
    const C mean_gh = mean_over<C>(group, sum_gh, length);
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      load(i, g, h);
      for (int k = 0; k < Line::width; ++k) g.v[k] = s * (g.v[k] - mean_g - h.v[k] * mean_gh);
      dx.store(i, g);
    }
  }
};

/// The sums of dy h and dy over every share of the rows, by columns. i = share n + column.
template <class C>
struct ColumnSums {
  DType dtype;
  const char *dy, *x;
  const C *mean, *invstd;
  C *dgamma, *dbeta;  // (shares, n), or null
  std::int64_t rows, n, shares;

  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t share = i / n, column = i - share * n, size = size_of(dtype);
    C sum_gh = 0, sum_g = 0;
    for (std::int64_t r = rows * share / shares; r < rows * (share + 1) / shares; ++r) {
      const std::int64_t at = (r * n + column) * size;
      const C g = load<C>(dtype, dy + at), m = mean != nullptr ? mean[r] : 0;
      sum_g += g;
      sum_gh += g * (load<C>(dtype, x + at) - m) * invstd[r];
    }
    if (dgamma != nullptr) dgamma[i] = sum_gh;
    if (dbeta != nullptr) dbeta[i] = sum_g;
  }
};

/// gamma or beta as an operand of rows like x's; x itself if it is undefined.
Tensor for_each_row(const Tensor& v, const Tensor& x) {
  return v.defined() ? v.as_view(x.shape(), {0, v.strides()[0]}, v.storage_offset()) : x;
}

template <class C>
C* pointer(const Tensor& t) {
  return t.defined() ? t.data_ptr<C>() : nullptr;
}

}  // namespace

bool CudaBackend::has_layer_norm(const Tensor& x) const { return is_floating(x.dtype()); }

void CudaBackend::do_layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                double eps, const Tensor& y, const Tensor& mean,
                                const Tensor& invstd) {
  const Tensor scale = for_each_row(gamma, x), shift = for_each_row(beta, x);
  const Lines<4> lines(1, {&x, &scale, &shift, &y});
  const std::int64_t n = x.size(1);
  visit_runs("layer_norm", lines, 4, n, [&]<class C, class T>() {
    const RowNorm<C, T> body{lines,
                             gamma.defined(),
                             beta.defined(),
                             pointer<C>(mean),
                             pointer<C>(invstd),
                             static_cast<C>(eps),
                             n};
    for_rows(device_, x.size(0), n / Run<C, T>::width, body);
  });
}

void CudaBackend::do_layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                         const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                         const Tensor& dgamma, const Tensor& dbeta) {
  const std::int64_t rows = x.size(0), n = x.size(1);
  if (dx.defined()) {
    const Tensor scale = for_each_row(gamma, x);
    const Lines<4> lines(1, {&dy, &x, &scale, &dx});
    visit_runs("layer_norm_backward", lines, 4, n, [&]<class C, class T>() {
      const RowNormGradient<C, T> body{lines, gamma.defined(), pointer<C>(mean), pointer<C>(invstd),
                                       n};
      for_rows(device_, rows, n / Run<C, T>::width, body);
    });
  }
  if (!dgamma.defined() && !dbeta.defined()) return;
  // Enough threads to fill a GPU, each with 16 rows or more.
  const std::int64_t shares =
      std::clamp<std::int64_t>(rows / 16, 1, std::max<std::int64_t>(1, (1 << 18) / n));
  const auto of_shares = [&](const Tensor& to) {
    return to.defined() ? Tensor::empty({shares, n}, invstd.options()) : to;
  };
  const Tensor of_gamma = of_shares(dgamma), of_beta = of_shares(dbeta);
  visit_float_compute(x.dtype(), "layer_norm_backward", [&]<class C>() {
    for_each(
        device_, shares * n,
        ColumnSums<C>{x.dtype(), static_cast<const char*>(dy.data_ptr()),
                      static_cast<const char*>(x.data_ptr()), pointer<C>(mean), pointer<C>(invstd),
                      pointer<C>(of_gamma), pointer<C>(of_beta), rows, n, shares});
  });
  const auto add = [&](const Tensor& parts, const Tensor& to) {
    if (to.defined())
      do_reduce(ReductionOp::sum, parts, to.as_view({1, n}, {n, 1}, to.storage_offset()));
  };
  add(of_gamma, dgamma);
  add(of_beta, dbeta);
}

}  // namespace rondo::cuda
