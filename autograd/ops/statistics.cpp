#include "autograd/ops/statistics.h"

#include <algorithm>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/record_function.h"

namespace rondo {

Tensor nansum(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("nansum");
  return sum(masked_fill(x, isnan(x), 0), dims, keepdim);
}

Tensor nanmean(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpRange op("nanmean");
  require_float(x, "nanmean");
  const Tensor counts = sum(to(logical_not(isnan(x)), i64), dims, keepdim);
  return to(nansum(widened(x), dims, keepdim) / counts, x.dtype());
}

Tensor count_nonzero(const Tensor& x, const Dims& dims) { return sum(ne(x, 0), dims); }

StdMean std_mean(const Tensor& x, const Dims& dims, std::int64_t correction, Flag keepdim) {
  return {rondo::std(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

Tensor cov(const Tensor& input, CovOptions options) {
  const OpRange op("cov");
  const Tensor x = as_float(input, "cov");
  require<ShapeError>(x.dim() <= 2, "cov: expected (variables, n) or (n), got ", x.shape());
  const Tensor rows = x.dim() == 2 ? x : reshape(x, {1, x.numel()});
  const Tensor centered = rows - mean(rows, {1}, true);
  const std::int64_t degrees = std::max<std::int64_t>(rows.size(1) - options.correction, 0);
  const Tensor y = matmul(centered, transpose(centered, 0, 1)) / degrees;
  return x.dim() == 2 ? y : reshape(y, {});
}

Tensor corrcoef(const Tensor& x) {
  const OpRange op("corrcoef");
  const Tensor c = cov(x);
  if (c.dim() == 0) return c / c;
  const Tensor deviation = sqrt(diagonal(c));
  return clamp(c / unsqueeze(deviation, 1) / deviation, -1.0, 1.0);
}

Tensor diff(const Tensor& x, const DiffOptions& options) {
  const OpRange op("diff");
  require<ShapeError>(x.dim() > 0, "diff: a tensor without dimensions has no differences");
  require(options.n >= 0, "diff: n is ", options.n, "; expected 0 or more");
  const std::int64_t dim = wrap_dim(options.dim, x.dim(), "diff");
  Tensors parts;
  for (const Tensor& part : {options.prepend, x, options.append})
    if (part.defined()) parts.push_back(part);
  Tensor y = parts.size() == 1 ? x : cat(parts, dim);
  for (std::int64_t i = 0; i < options.n; ++i) {
    const std::int64_t left = std::max<std::int64_t>(y.size(dim) - 1, 0);
    const Tensor next = narrow(y, dim, y.size(dim) - left, left), here = narrow(y, dim, 0, left);
    y = x.dtype() == boolean ? ne(next, here) : next - here;
  }
  return detail::as_result(y, x);
}

namespace {

/// The areas between neighbours along dim.
Tensor trapezoids(const char* op, const Tensor& y, const TrapezoidOptions& options) {
  require<ShapeError>(y.dim() > 0, op, ": a tensor without dimensions has no neighbours");
  const std::int64_t dim = wrap_dim(options.dim, y.dim(), op);
  const std::int64_t n = std::max<std::int64_t>(y.size(dim) - 1, 0);
  const Tensor sums = narrow(y, dim, 0, n) + narrow(y, dim, y.size(dim) - n, n);
  if (!options.x.defined()) return sums * (options.dx / 2);
  Tensor x = options.x;
  const std::int64_t at = x.dim() == 1 ? 0 : x.dim() + dim - y.dim();  // dim, from the right
  require<ShapeError>(x.dim() >= 1 && at >= 0 && x.size(at) == y.size(dim), op, ": x of shape ",
                      x.shape(), " does not fit dimension ", dim, " of ", y.shape());
  if (x.dim() == 1) {  // along dim
    Dims line = Dims::filled(y.dim(), 1);
    line[dim] = x.numel();
    x = reshape(x, line);
  }
  return sums * diff(x, {.dim = dim - y.dim()}) / 2;
}

}  // namespace

Tensor trapezoid(const Tensor& y, const TrapezoidOptions& options) {
  const OpRange op("trapezoid");
  return sum(trapezoids("trapezoid", y, options), {options.dim});
}

Tensor cumulative_trapezoid(const Tensor& y, const TrapezoidOptions& options) {
  const OpRange op("cumulative_trapezoid");
  return cumsum(trapezoids("cumulative_trapezoid", y, options), options.dim);
}

}  // namespace rondo
