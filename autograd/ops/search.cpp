#include "autograd/ops/search.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Element `place` (i64, size 1 at dim) of the sorted line, without or with its dimension.
ValuesAndIndices taken(const ValuesAndIndices& sorted, const Tensor& place, std::int64_t dim,
                       Flag keepdim) {
  const Tensor values = gather(sorted.values, dim, place),
               indices = gather(sorted.indices, dim, place);
  if (keepdim) return {values, indices};
  return {squeeze(values, dim), squeeze(indices, dim)};
}

/// The place of the first NaN of each sorted line, else `place`.
Tensor or_first_nan(const Tensor& sorted, std::int64_t dim, const Tensor& place) {
  const NoGradGuard no_grad;
  const std::int64_t n = sorted.size(dim);
  const Tensor numbers = sum(to(logical_not(isnan(sorted)), i64), {dim}, true);
  return where(eq(numbers, n), place, clamp(numbers, 0, n - 1));
}

Tensor filled_place(const Tensor& x, std::int64_t dim, std::int64_t value) {
  Dims sizes = x.shape();
  sizes[dim] = 1;
  return full(sizes, value, {.dtype = i64, .device = x.device()});
}

}  // namespace

ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, Flag keepdim) {
  const OpRange op("kthvalue");
  dim = wrap_dim(dim, x.dim(), "kthvalue");
  if (x.dim() == 0) {
    const auto [values, indices] = kthvalue(reshape(x, {1}), k, 0);
    return {reshape(values, {}), reshape(indices, {})};
  }
  require<ShapeError>(k >= 1 && k <= x.size(dim), "kthvalue: k = ", k, " is not one of 1 … ",
                      x.size(dim), ", the size of dimension ", dim, " of ", x.shape());
  return taken(sort(x, dim), filled_place(x, dim, k - 1), dim, keepdim);
}

ValuesAndIndices median(const Tensor& x, std::int64_t dim, Flag keepdim) {
  const OpRange op("median");
  dim = wrap_dim(dim, x.dim(), "median");
  if (x.dim() == 0) return kthvalue(x, 1, dim, keepdim);
  require<ShapeError>(x.size(dim) > 0, "median: dimension ", dim, " of shape ", x.shape(),
                      " has no elements");
  const ValuesAndIndices sorted = sort(x, dim);
  const Tensor middle = filled_place(x, dim, (x.size(dim) - 1) / 2);
  return taken(sorted, or_first_nan(sorted.values, dim, middle), dim, keepdim);
}

Tensor median(const Tensor& x) {
  const OpRange op("median");
  require<ShapeError>(x.numel() > 0, "median: the tensor ", x.shape(), " has no elements");
  return median(reshape(x, {x.numel()}), 0).values;
}

Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  const OpRange op("quantile");
  require<DTypeError>(x.dtype() == f32 || x.dtype() == f64, "quantile: the input is ", x.dtype(),
                      "; expected f32 or f64");
  require(q >= 0 && q <= 1, "quantile: q = ", q, " is not in 0 … 1");
  if (!options.dim) {
    const Tensor y =
        quantile(reshape(x, {x.numel()}), q, {.dim = 0, .interpolation = options.interpolation});
    return options.keepdim ? reshape(y, Dims::filled(x.dim(), 1)) : y;
  }
  const std::int64_t dim = wrap_dim(*options.dim, x.dim(), "quantile");
  if (x.dim() == 0) return clone(x);
  const std::int64_t n = x.size(dim);
  require<ShapeError>(n > 0, "quantile: dimension ", dim, " of shape ", x.shape(),
                      " has no elements");
  const std::string_view kind = options.interpolation;
  const double place = q * static_cast<double>(n - 1), below = std::floor(place);
  double weight = place - below;  // of the element above
  if (kind == "lower")
    weight = 0;
  else if (kind == "higher")
    weight = weight > 0 ? 1 : 0;
  else if (kind == "nearest")
    weight = std::nearbyint(place) - below;
  else if (kind == "midpoint")
    weight = weight > 0 ? 0.5 : 0;
  else
    require(kind == "linear", "quantile: interpolation = \"", std::string(kind),
            "\"; there are linear, lower, higher, nearest and midpoint");
  const Tensor sorted = sort(x, dim).values;
  const auto element = [&](double at) {
    const Tensor which = filled_place(x, dim, static_cast<std::int64_t>(at));
    return gather(sorted, dim, or_first_nan(sorted, dim, which));
  };
  const Tensor low = element(below);
  const Tensor y = weight == 0 ? low : lerp(low, element(below + 1), weight);
  return options.keepdim ? y : squeeze(y, dim);
}

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  const OpRange op("quantile");
  require<ShapeError>(q.dim() <= 1, "quantile: q has shape ", q.shape(),
                      "; expected 0 or 1 dimensions");
  require<DTypeError>(q.dtype() == x.dtype(), "quantile: q is ", q.dtype(), ", the input is ",
                      x.dtype());
  if (q.dim() == 0) return quantile(x, q.item<double>(), options);
  require<ShapeError>(q.numel() > 0, "quantile: q has no elements");
  Tensors results;
  for (const double each : q.to_vector<double>()) results.push_back(quantile(x, each, options));
  return stack(results);
}

Unique unique(const Tensor& x) {
  const OpRange op("unique");
  const NoGradGuard no_grad;
  const Tensor flat = reshape(x, {x.numel()});
  const std::int64_t n = flat.numel();
  const auto [sorted, order] = sort(flat, 0);
  if (n == 0) return {sorted, reshape(order, x.shape()), order};
  // An element begins a group if it differs from the one before it.
  const Tensor begins = cat({ones({1}, {.dtype = boolean, .device = x.device()}),
                             ne(narrow(sorted, 0, 1, n - 1), narrow(sorted, 0, 0, n - 1))});
  const Tensor starts = reshape(nonzero(begins), {-1});
  const Tensor group = sub(cumsum(to(begins, i64), 0), 1);
  const Tensor ends =
      cat({narrow(starts, 0, 1, starts.numel() - 1), full({1}, n, starts.options())});
  return {index_select(sorted, 0, starts), reshape(scatter(order, 0, order, group), x.shape()),
          sub(ends, starts)};
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, SearchOptions options) {
  const OpRange op("searchsorted");
  require<ShapeError>(sorted.dim() >= 1, "searchsorted: the sorted sequence has no dimension");
  if (sorted.dim() == 1 && values.dim() != 1) {
    const Tensor flat = searchsorted(sorted, reshape(values, {values.numel()}), options);
    return reshape(flat, values.shape());
  }
  bool fits = sorted.dim() == values.dim();
  for (std::int64_t d = 0; fits && d + 1 < sorted.dim(); ++d)
    fits = sorted.size(d) == values.size(d);
  require<ShapeError>(fits, "searchsorted: sequences of shape ", sorted.shape(),
                      " do not fit values of shape ", values.shape(),
                      "; all sizes except the last must be equal");
  const NoGradGuard no_grad;
  if (sorted.dtype() != values.dtype()) {
    const DType dtype = promote(sorted.dtype(), values.dtype());
    return searchsorted(to(sorted, dtype), to(values, dtype), options);
  }
  // Both are sorted together. A value's place is the number of elements of `sorted` before it; the
  // order of equal ones is that in which they are joined, since the sort is stable.
  const std::int64_t m = values.size(-1), n = sorted.size(-1);
  const Tensor both = options.right ? cat({sorted, values}, -1) : cat({values, sorted}, -1);
  const Tensor order = sort(both, -1).indices;
  const Tensor is_sorted = options.right ? lt(order, n) : ge(order, m);
  const Tensor before = cumsum(to(is_sorted, i64), -1);
  return narrow(scatter(before, -1, order, before), -1, options.right ? n : 0, m);
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, SearchOptions options) {
  require<ShapeError>(boundaries.dim() == 1, "bucketize: the boundaries have shape ",
                      boundaries.shape(), ", not one dimension");
  return searchsorted(boundaries, x, options);
}

Tensor bincount(const Tensor& x, const BincountOptions& options) {
  const OpRange op("bincount");
  require<ShapeError>(x.dim() == 1, "bincount: the input has shape ", x.shape(),
                      ", not one dimension");
  require<DTypeError>(!is_floating(x.dtype()) && x.dtype() != boolean, "bincount: the input is ",
                      x.dtype(), "; expected integers");
  require(options.minlength >= 0, "bincount: minlength is ", options.minlength,
          "; expected 0 or more");
  const Tensor which = to(x, i64);
  std::int64_t length = 0;
  if (x.numel() > 0) {
    const auto least = min(which).item<std::int64_t>();
    require(least >= 0, "bincount: ", least, " is negative");
    const auto most = max(which).item<std::int64_t>();
    require(most < std::int64_t{1} << 40, "bincount: ", most,
            " is too large for a table of counts");
    length = most + 1;
  }
  Tensor weights = options.weights;
  if (!weights.defined())
    weights = ones({1}, which.options()).expand(x.shape());
  else if (!is_floating(weights.dtype()))
    weights = to(weights, f64);
  require<ShapeError>(weights.shape() == x.shape(), "bincount: the weights have shape ",
                      weights.shape(), ", the input ", x.shape());
  const Dims sizes{std::max(length, options.minlength)};
  return index_add(zeros(sizes, weights.options()), 0, which, weights);
}

Tensor histc(const Tensor& x, const HistcOptions& options) {
  const OpRange op("histc");
  require_float(x, "histc");
  require(options.bins > 0, "histc: ", options.bins, " bins is not a positive number");
  require(options.min <= options.max, "histc: min ", options.min, " exceeds max ", options.max);
  const NoGradGuard no_grad;
  const Tensor values = reshape(widened(x), {x.numel()});
  double low = options.min, high = options.max;
  if (low == high && x.numel() > 0) {
    low = min(values).item<double>();
    high = max(values).item<double>();
  }
  require(std::isfinite(low) && std::isfinite(high), "histc: the range ", low, " … ", high,
          " is not finite");
  if (low == high) {
    low -= 1;
    high += 1;
  }
  const Tensor inside = logical_and(ge(values, low), le(values, high));
  const Tensor place =
      where(inside, (values - low) * (static_cast<double>(options.bins) / (high - low)), 0.0);
  const Tensor bin = clamp(to(place, i64), 0, options.bins - 1);  // max is in the last one
  const Tensor counts = zeros({options.bins}, values.options());
  return to(index_add(counts, 0, bin, to(inside, values.dtype())), x.dtype());
}

Tensor isin(const Tensor& x, const Tensor& elements) {
  const OpRange op("isin");
  const NoGradGuard no_grad;
  const std::int64_t n = elements.numel();
  if (n == 0) return zeros(x.shape(), {.dtype = boolean, .device = x.device()});
  const DType dtype = promote(x.dtype(), elements.dtype());
  const Tensor values = reshape(to(x, dtype), {x.numel()});
  const Tensor sorted = sort(reshape(to(elements, dtype), {n}), 0).values;
  const Tensor place = clamp(searchsorted(sorted, values), 0, n - 1);
  return reshape(eq(index_select(sorted, 0, place), values), x.shape());
}

}  // namespace rondo
