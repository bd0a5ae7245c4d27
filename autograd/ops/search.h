#pragma once
// Questions that sorting answers: order statistics, distinct values, places in sorted data, and
// counts. Composed of sort, gather and scatter, so they run on every device. Results and gradients
// agree with the functions of the same name in torch.

#include <optional>
#include <string_view>

#include "autograd/ops/reduce.h"

namespace rondo {

/// The k-th smallest element along dim (k from 1) and its index; NaN counts as the largest.
ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1,
                          Flag keepdim = false);
/// The median along dim and its index; of an even number the lower of the two in the middle. NaN if
/// there is one. Throws ShapeError for a dimension without elements.
ValuesAndIndices median(const Tensor& x, std::int64_t dim, Flag keepdim = false);
/// The median of all elements.
Tensor median(const Tensor& x);

struct QuantileOptions {
  /// Not given: of all elements.
  std::optional<std::int64_t> dim = {};
  bool keepdim = false;
  /// Between the two nearest elements: linear, lower, higher, nearest or midpoint.
  std::string_view interpolation = "linear";
};
/// The value below which the share q (0 … 1) of the elements lies. NaN if there is one. Throws
/// Error for another q or interpolation, DTypeError unless x is f32 or f64.
Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
/// The same for each element of q (0-dim or 1-dim): a 1-dim q gives the result a new first
/// dimension. Waits for the device.
Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});

struct Unique {
  Tensor values;   // sorted, 1-dim
  Tensor inverse;  // values[inverse] is x: i64, of x's shape
  Tensor counts;   // how often each value occurs: i64
};
/// The distinct elements of x. Each NaN is distinct. No gradient. Waits for the device.
Unique unique(const Tensor& x);

struct SearchOptions {
  bool right = false;
};
/// Where `values` would be inserted into `sorted` (ascending along the last dimension) to keep it
/// sorted: i64. Before equal elements, or after them if `right`. sorted is 1-dim, or has the sizes
/// of values except in the last dimension.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, SearchOptions options = {});
/// The number of the bucket of each element of x: searchsorted(boundaries, x).
Tensor bucketize(const Tensor& x, const Tensor& boundaries, SearchOptions options = {});

struct BincountOptions {
  Tensor weights = {};  // undefined: each element counts 1
  std::int64_t minlength = 0;
};
/// How often each of 0, 1, …, max x occurs in x (1-dim, integers >= 0); i64, or the sum of their
/// weights in the weights' dtype (f64 for integers). Waits for the device.
Tensor bincount(const Tensor& x, const BincountOptions& options = {});
struct HistcOptions {
  std::int64_t bins = 100;
  double min = 0, max = 0;  // both equal: those of x
};
/// How many elements of x (floating-point) are in each of `bins` intervals of equal width from min
/// to max, in x's dtype; no gradient. Other elements are ignored. Waits for the device.
Tensor histc(const Tensor& x, const HistcOptions& options = {});
/// Whether each element of x is one of `elements`: boolean.
Tensor isin(const Tensor& x, const Tensor& elements);

}  // namespace rondo
