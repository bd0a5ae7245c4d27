#pragma once
// Shape: views where strides allow (no copy), copies where they do not.
//
// A view shares the elements: writing through one shows in the other, and the tape notices
// (Note [Versions] in autograd/saved_tensor.h). reshape, flatten, squeeze, unsqueeze, expand,
// permute, transpose, split, chunk and unbind give views; reshape and flatten copy where no strides
// could say it. All dtypes. Sizes and dimensions that do not fit throw ShapeError. Agrees with the
// functions of the same name in torch.

#include <vector>

#include "tensor/tensor.h"

namespace rondo {

/// The same elements in row-major order under another shape; one size may be -1. A view if
/// possible.
Tensor reshape(const Tensor& x, const Dims& sizes);
/// The same, but throws ShapeError where only a copy would do.
Tensor view(const Tensor& x, const Dims& sizes);
/// Dimensions start_dim … end_dim as one. For channels_last (N, C, 1, 1), as after global pooling,
/// a view.
Tensor flatten(const Tensor& x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
/// Without dimension dim, if its size is 1 (else unchanged).
Tensor squeeze(const Tensor& x, std::int64_t dim);
/// With a new dimension of size 1 before dim; -1 appends it.
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// Repeats size-1 dimensions without copying; -1 keeps a size; new dimensions in front.
Tensor expand(const Tensor& x, const Dims& sizes);
/// y.size(i) = x.size(order[i]); order names each dimension once.
Tensor permute(const Tensor& x, const Dims& order);
/// Dimensions a and b exchanged.
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
/// Reverses the order along each of dims (a copy).
Tensor flip(const Tensor& x, const Dims& dims);
/// Joins along an existing (new) dimension: the other sizes must agree. Dtypes promote. cat skips
/// tensors of shape (0), as torch.cat does, so that a result can be grown from nothing.
Tensor cat(const Tensors& xs, std::int64_t dim = 0);
Tensor stack(const Tensors& xs, std::int64_t dim = 0);
/// Views of `size` along dim, the last one smaller if need be.
Tensors split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
/// At most `chunks` views of equal size, ceil(n / chunks); exactly `chunks` empty ones where n is
/// 0.
Tensors chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);
/// All slices along dim, without that dimension: x[0], x[1], … for dim 0. One node for all, so that
/// a loop over the slices costs backward one pass, where x[i] in each round costs a pass a round.
Tensors unbind(const Tensor& x, std::int64_t dim = 0);
/// Dense in the given order; x itself when it is so already.
Tensor contiguous(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous);
/// A copy of the elements, keeping the layout where it is dense.
Tensor clone(const Tensor& x);
/// x converted (floats to integers truncate, anything to bool is [x != 0]); x itself when it has
/// that dtype (is on that device) already.
Tensor to(const Tensor& x, DType dtype);
Tensor to(const Tensor& x, Device device);

}  // namespace rondo
