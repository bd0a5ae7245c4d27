#pragma once
// Writing at index tensors. Each function returns a new tensor and leaves its arguments unchanged;
// Tensor::index_put_ (subscript.h) writes in place. Indices are i64 or i32 (DTypeError otherwise)
// and must not be negative; an index out of range throws a ShapeError that names it. All dtypes;
// `src` must have x's dtype. If an index repeats, elements are joined in its order, and where one
// replaces the other the last one stays. Results and gradients agree with the functions of the same
// name in torch.

#include <string_view>

#include "tensor/tensor.h"

namespace rondo {

/// x with src at index: y = x; y[index[i][j]][j] = src[i][j] for dim 0. index may be smaller than
/// src; the rest of src is then not used. The gradient of src is that of the elements at index,
/// also where several were written to one place.
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
/// The same with +=.
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);

struct ScatterReduceOptions {
  /// Whether x's own element takes part where something is scattered to it.
  bool include_self = true;
};
/// The same with a reduction: "sum", "prod", "mean", "amax" or "amin" (Error for other names). The
/// gradient of amax and amin is shared evenly among equal elements. The gradient of prod can be
/// differentiated only where at most one factor of an element is 0.
Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, ScatterReduceOptions options = {});

struct IndexAddOptions {
  double alpha = 1;
};
/// x with slices of src at index (1-dim) along dim: y[.., index[i], ..] += alpha src[.., i, ..].
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                 IndexAddOptions options = {});
/// The same with =.
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// x with `value` in the slices of index.
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);

}  // namespace rondo
