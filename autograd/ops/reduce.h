#pragma once
// Reductions. `dims` empty means all dimensions; negative dims count from the end. Means and
// variances of integers are errors, as in PyTorch; sums of integers and bools are i64.

#include <utility>

#include "tensor/tensor.h"

namespace rondo {

Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum (x - mean)^2 / (n - correction), two passes.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
           bool keepdim = false);
Tensor std(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
           bool keepdim = false);
/// Product of all elements.
Tensor prod(const Tensor& x);
/// Euclidean norm, sqrt(sum x^2); its gradient at 0 is 0.
Tensor norm(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// log sum exp(x), computed after subtracting the maximum.
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim = false);
/// x[0] + … + x[i] along dim.
Tensor cumsum(const Tensor& x, std::int64_t dim);

struct ValuesAndIndices {
  Tensor values, indices;
};
/// Largest (smallest) along dim and the index of the first of equals; the gradient goes there.
ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Of all elements; the gradient is shared evenly among equals (PyTorch's amax).
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor all(const Tensor& x);
Tensor any(const Tensor& x);

/// Sorted along dim, stable; NaN counts as largest. The gradient is scattered back.
ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The k largest (smallest) along dim, in order.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

}  // namespace rondo
