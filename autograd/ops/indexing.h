#pragma once
// Indexing and slicing. Indices are i64 or i32 tensors (DTypeError otherwise). An index out of
// range throws a ShapeError that names it. Negative dimensions and positions count from the end,
// but elements of index tensors must not be negative. All dtypes. If an element was picked more
// than once, its gradients are added in a fixed order. Agrees with the functions of the same name
// in torch.

#include <optional>

#include "tensor/tensor.h"

namespace rondo {

/// The slice at `index` along dim, without dimension dim (a view).
Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index);
/// Elements start … start+length-1 along dim (a view).
Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// start, start+step, … below end along dim (a view); negative start and end count from the end.
Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t end,
             std::int64_t step = 1);
/// Elements (i, i + offset) of dimensions dim1 and dim2, as the last dimension (a view).
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0,
                std::int64_t dim2 = 1);
/// Rows `index` (1-dim, or 0-dim for one row) along dim: y[.., i, ..] = x[.., index[i], ..]. A
/// 0-dim x counts as a tensor with one element along dim 0, and y is then 0-dim; the same holds for
/// gather and the functions of scatter.h.
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// y[i][j] = x[index[i][j]][j] for dim 0; other dims accordingly. y has the shape of index, which
/// may be smaller than x in the other dimensions.
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// x with `value` where mask (boolean, broadcast) is true. Throws Error if x's dtype cannot
/// represent the value.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// Rows of weight (V, D) picked by index (any shape); the result has shape index.shape + (D). Row
/// padding_idx, if given (a negative one counts from the end), gets no gradient.
Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<std::int64_t> padding_idx = {});
/// One-hot vectors of i64 zeros and ones, of shape index.shape + (classes).
Tensor one_hot(const Tensor& index, std::int64_t classes);

namespace detail {
// Shared by indexing.cpp and scatter.cpp.

/// A 0-dim tensor as a 1-dim tensor of one element; others as they are.
inline Tensor as_row(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }
/// Throws ShapeError unless index has as many dimensions as `sizes` and is not larger, except along
/// dim.
void require_fits(const Tensor& index, const Dims& sizes, std::int64_t dim, const char* op,
                  const char* whose);
}  // namespace detail

}  // namespace rondo
