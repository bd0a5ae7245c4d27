#pragma once
// Shape: views if strides can express the result (no copy), else copies.
//
// A view shares the elements: a write through one tensor is visible in the other, and the tape
// notices it (Note [Versions] in autograd/saved_tensor.h). reshape, flatten, squeeze, unsqueeze,
// expand, permute, transpose, split, chunk and unbind return views; reshape and flatten copy if no
// strides can express the result. All dtypes. Sizes and dimensions that do not match throw
// ShapeError. Agrees with the functions of the same name in torch.

#include <initializer_list>
#include <vector>

#include "tensor/tensor.h"

namespace rondo {

/// The same elements in row-major order with another shape. One size may be -1. A view if possible.
Tensor reshape(const Tensor& x, const Dims& sizes);
/// The same, but throws ShapeError if it needs a copy.
Tensor view(const Tensor& x, const Dims& sizes);
/// Merges dimensions start_dim … end_dim into one. For a channels_last tensor (N, C, 1, 1), as
/// after global pooling, it is a view.
Tensor flatten(const Tensor& x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
/// Removes dimension dim if its size is 1; else returns x unchanged. Without dim: all of size 1.
Tensor squeeze(const Tensor& x, std::int64_t dim);
Tensor squeeze(const Tensor& x);
/// Inserts a dimension of size 1 before dim; -1 appends it.
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// Repeats dimensions of size 1 without copying. -1 keeps a size. New dimensions come first.
Tensor expand(const Tensor& x, const Dims& sizes);
/// y.size(i) = x.size(order[i]). order names each dimension once.
Tensor permute(const Tensor& x, const Dims& order);
/// Swaps dimensions a and b.
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
/// Reverses the order along each of dims (a copy).
Tensor flip(const Tensor& x, const Dims& dims);
/// cat joins along an existing dimension, stack along a new one. The other sizes must agree. Dtypes
/// promote. cat skips tensors of shape (0), as torch.cat does, so a caller can start from an empty
/// tensor and append to it.
Tensor cat(const Tensors& xs, std::int64_t dim = 0);
Tensor stack(const Tensors& xs, std::int64_t dim = 0);
/// Views of `size` elements along dim; the last one may be smaller.
Tensors split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
/// Views of sizes[0], sizes[1], … elements, which must add up to the size of dim.
Tensors split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim = 0);
inline Tensors split(const Tensor& x, std::initializer_list<std::int64_t> sizes,
                     std::int64_t dim = 0) {
  return split(x, std::vector<std::int64_t>(sizes), dim);  // {2} is a list, not a size
}
/// At most `chunks` views of equal size, ceil(n / chunks). If n is 0, exactly `chunks` empty ones.
Tensors chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);
/// All slices along dim, without dimension dim: x[0], x[1], … for dim 0. All slices share one node,
/// so a loop over them costs backward one pass over x. With x[i] in each iteration, backward needs
/// one pass for each i.
Tensors unbind(const Tensor& x, std::int64_t dim = 0);
/// A dense tensor in the given memory format; x itself if it already is one.
Tensor contiguous(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous);
/// A copy of the elements. Keeps the layout if it is dense.
Tensor clone(const Tensor& x);
/// x converted. Floats are truncated to integers; anything to bool is [x != 0]. Returns x itself if
/// it already has that dtype (is on that device).
Tensor to(const Tensor& x, DType dtype);
Tensor to(const Tensor& x, Device device);

// The following are composed of other ops (composed_shape.cpp).

/// `sections` views along dim, of which the first ones may be larger by one; or the views between
/// the given positions, that is [0, i0), [i0, i1), …, to the end.
Tensors tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim = 0);
Tensors tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices,
                     std::int64_t dim = 0);
inline Tensors tensor_split(const Tensor& x, std::initializer_list<std::int64_t> indices,
                            std::int64_t dim = 0) {
  return tensor_split(x, std::vector<std::int64_t>(indices), dim);
}
/// All windows of `size` elements along dim, `step` apart, as a new last dimension. A copy; torch's
/// Tensor.unfold is a view.
Tensor unfold(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step);
/// A view with dimensions a and b swapped, as transpose.
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);
/// expand without -1.
Tensor broadcast_to(const Tensor& x, const Dims& sizes);
/// All tensors expanded to one shape.
Tensors broadcast_tensors(const Tensors& xs);
/// At least so many dimensions: new ones come first, except that the last one of atleast_3d comes
/// last.
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);
/// cat along the second dimension (vectors: the only one), of tensors of at least one dimension;
/// along the first, of at least two; along the third, of at least three.
Tensor hstack(const Tensors& xs);
Tensor vstack(const Tensors& xs);
Tensor dstack(const Tensors& xs);
/// hstack, with vectors as columns.
Tensor column_stack(const Tensors& xs);
/// flip of the second (first) dimension.
Tensor fliplr(const Tensor& x);
Tensor flipud(const Tensor& x);
/// Rotated k times by 90 degrees from the first of two dimensions towards the second.
Tensor rot90(const Tensor& x, std::int64_t k = 1, const Dims& dims = {0, 1});
/// Matrices on the diagonal of one matrix of zeros; vectors count as rows.
Tensor block_diag(const Tensors& xs);
/// All combinations of the elements of vectors, one in each row.
Tensor cartesian_prod(const Tensors& xs);

namespace detail {
/// y as the result of a function that never returns a view of x: a copy if y is in x's memory, or
/// if several of its elements share an address (expand).
Tensor as_result(const Tensor& y, const Tensor& x);
}  // namespace detail

}  // namespace rondo
