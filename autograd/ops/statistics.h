#pragma once
// Sums without NaN, covariances, differences and integrals. Composed of other ops, so that
// gradients of any order and devices follow from those. Results agree with the functions of the
// same name in torch.

#include "autograd/ops/composed.h"
#include "autograd/ops/reduce.h"

namespace rondo {

/// sum and mean over `dims` (none: all) of the elements that are not NaN.
Tensor nansum(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
Tensor nanmean(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
/// How many elements differ from 0: i64, without a gradient.
Tensor count_nonzero(const Tensor& x, const Dims& dims = {});

struct StdMean {
  Tensor std, mean;
};
/// std and mean over `dims` (none: all), as rondo::std and rondo::mean.
StdMean std_mean(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
                 Flag keepdim = false);

struct CovOptions {
  std::int64_t correction = 1;
};
/// Σ (x_i - mean x_i)(x_j - mean x_j) / (n - correction) for the rows i and j of x (variables, n),
/// or of one variable (n).
Tensor cov(const Tensor& x, CovOptions options = {});
/// cov, divided by the standard deviations of both variables.
Tensor corrcoef(const Tensor& x);

struct DiffOptions {
  std::int64_t n = 1;  // how many times
  std::int64_t dim = -1;
  Tensor prepend = {}, append = {};  // joined with x first
};
/// x[i + 1] - x[i] along dim; for bools, whether they differ.
Tensor diff(const Tensor& x, const DiffOptions& options = {});

struct TrapezoidOptions {
  Tensor x = {};  // where y was measured; undefined: at distances dx
  double dx = 1;
  std::int64_t dim = -1;
};
/// The integral along dim by the trapezoidal rule: Σ (y[i] + y[i + 1]) / 2 (x[i + 1] - x[i]).
Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options = {});
/// Its running sums.
Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options = {});

}  // namespace rondo
