#pragma once
// Shape: views if strides can express the result (no copy), else copies.
//
// A view shares the elements: a write through one tensor is visible in the other, and the tape
// notices it (Note [Versions] in autograd/saved_tensor.h). reshape, flatten, squeeze, unsqueeze,
// expand, permute, transpose, split, chunk and unbind return views; reshape and flatten copy if no
// strides can express the result. All dtypes. Sizes and dimensions that do not match throw
// ShapeError. Agrees with the functions of the same name in torch.

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
/// Removes dimension dim if its size is 1; else returns x unchanged.
Tensor squeeze(const Tensor& x, std::int64_t dim);
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

}  // namespace rondo
