#pragma once
// Reductions. `dims` empty means all dimensions; negative dims count from the end. The result has
// the input's shape without those dimensions, or with size 1 there when keepdim. Names, results and
// gradients agree with the functions of the same name in torch.
//
// dtypes: the result has the input's, except that sums and products of integers and bools are i64.
// mean, var, std, norm and logsumexp want floats and throw DTypeError otherwise; 16-bit floats are
// computed in f32 and rounded once (so nothing overflows on the way). A dimension that does not
// exist or is named twice is a ShapeError, and so is the maximum of nothing; the sum of nothing is
// 0, the mean NaN. NaN wins every comparison.

#include <utility>

#include "tensor/tensor.h"

namespace rondo {

/// sum x.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum x / n.
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum (x - mean)^2 / (n - correction), computed in f64.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
           bool keepdim = false);
/// sqrt(var); its gradient where the input is constant is 0. To be called as rondo::std: after
/// `using namespace rondo` the bare name is ambiguous.
Tensor std(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
           bool keepdim = false);
/// Product of all elements, by a tree of halves; its gradient is right where elements are 0.
Tensor prod(const Tensor& x);
/// Euclidean norm, sqrt(sum x^2); its gradient at 0 is 0.
Tensor norm(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// (sum |x|^ord)^(1 / ord) for ord > 0, and max |x| for infinity (of something: ShapeError); its
/// gradient is 0 where x is, and for infinity shared evenly among equals. Throws Error for another
/// ord. Agrees with torch.linalg.vector_norm.
Tensor vector_norm(const Tensor& x, double ord, const Dims& dims = {}, bool keepdim = false);
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
/// Of all elements, NaN if there is one; the gradient is shared evenly among those that equal the
/// result (PyTorch's amax).
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// Index, i64, of the first of the largest (smallest); no gradient. Without dim: among all elements
/// in row-major order.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim = false);
Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// Whether all elements (any element) differ from 0: boolean, 0-dim, no gradient.
Tensor all(const Tensor& x);
Tensor any(const Tensor& x);

/// Sorted along dim, stable; NaN counts as largest. indices says where each value came from, and
/// there its gradient goes.
ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The k largest (smallest) along dim, in order. A 0-dim tensor gives its element, for k of 0 or 1.
/// Throws ShapeError unless 0 <= k <= size.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

}  // namespace rondo
