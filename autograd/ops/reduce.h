#pragma once
// Reductions. Empty `dims` mean all dimensions; negative dims count from the end. The result has
// the input's shape without those dimensions; with keepdim they stay, with size 1. Names, results
// and gradients agree with the functions of the same name in torch.
//
// dtypes: the result has the input's dtype, except that sums and products of integers and bools are
// i64. mean, var, std, norm and logsumexp need floating-point inputs and throw DTypeError
// otherwise. 16-bit floats are computed in f32 and rounded once, so no intermediate result
// overflows. A dimension that does not exist or is named twice throws ShapeError, and so does the
// maximum of no elements. The sum of no elements is 0, their mean is NaN. max, min,
// argmax and argmin choose a NaN if there is one.

#include <utility>

#include "tensor/tensor.h"

namespace rondo {

/// sum x.
Tensor sum(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
/// sum x / n.
Tensor mean(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
/// sum (x - mean)^2 / (n - correction), computed in f64.
Tensor var(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
           Flag keepdim = false);
/// sqrt(var). Its gradient is 0 where the input is constant. Call it as rondo::std: after `using
/// namespace rondo`, the bare name is ambiguous.
Tensor std(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
           Flag keepdim = false);
/// Product, computed as a tree of products of halves. Its gradient is correct also where elements
/// are 0.
Tensor prod(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
/// Euclidean norm, sqrt(sum x^2); its gradient at 0 is 0.
Tensor norm(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
/// (sum |x|^ord)^(1 / ord) for ord > 0; for infinity max |x|, which throws ShapeError if there are
/// no elements. Its gradient is 0 where x is 0; for infinity it is shared evenly among the elements
/// of equal |x|. Throws Error for other ord. Agrees with torch.linalg.vector_norm.
Tensor vector_norm(const Tensor& x, double ord, const Dims& dims = {}, Flag keepdim = false);
/// log sum exp(x), computed after subtracting the maximum.
Tensor logsumexp(const Tensor& x, const Dims& dims, Flag keepdim = false);
/// x[0] + … + x[i] along dim.
Tensor cumsum(const Tensor& x, std::int64_t dim);

struct ValuesAndIndices {
  Tensor values, indices;
  template <class V>
  void visit(V&& v) {
    v("values", values);
    v("indices", indices);
  }
};
/// The largest (smallest) element along dim and its index. If several are equal, the first one is
/// taken. The gradient goes to that element.
ValuesAndIndices max(const Tensor& x, std::int64_t dim, Flag keepdim = false);
ValuesAndIndices min(const Tensor& x, std::int64_t dim, Flag keepdim = false);
/// The largest (smallest) element; NaN if any element is NaN. The gradient is shared evenly among
/// the elements that equal the result. max(x) is amax(x), and min(x) is amin(x).
Tensor amax(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
Tensor amin(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
/// maximum and minimum of two tensors (arithmetic.h).
Tensor max(const Tensor& a, const Tensor& b);
Tensor min(const Tensor& a, const Tensor& b);
/// The i64 index of the first largest (smallest) element; no gradient. Without dim: among all
/// elements in row-major order.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
Tensor argmax(const Tensor& x, std::int64_t dim, Flag keepdim = false);
Tensor argmin(const Tensor& x, std::int64_t dim, Flag keepdim = false);
/// Whether all elements (any element) differ from 0. The result is boolean, without a gradient.
Tensor all(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
Tensor any(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);

/// Sorted along dim, stable; NaN counts as largest. `indices` gives the original position of each
/// value; its gradient goes there.
ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
ValuesAndIndices sort(const Tensor& x, std::same_as<bool> auto) = delete;  // sort(x, -1, true)
/// The k largest (smallest) elements along dim, in order. For a 0-dim tensor, k may be 0 or 1, and
/// both give its element. Throws ShapeError unless 0 <= k <= size.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

}  // namespace rondo
