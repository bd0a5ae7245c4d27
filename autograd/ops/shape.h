#pragma once
// Shape: views where strides allow (no copy), copies where they do not.

#include <vector>

#include "tensor/tensor.h"

namespace rondo {

/// The same elements in row-major order under another shape; one size may be -1. A view if
/// possible.
Tensor reshape(const Tensor& x, const Dims& sizes);
/// The same, but throws ShapeError where only a copy would do.
Tensor view(const Tensor& x, const Dims& sizes);
Tensor flatten(const Tensor& x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
Tensor squeeze(const Tensor& x, std::int64_t dim);
Tensor unsqueeze(const Tensor& x, std::int64_t dim);
/// Repeats size-1 dimensions without copying; -1 keeps a size; new dimensions in front.
Tensor expand(const Tensor& x, const Dims& sizes);
Tensor permute(const Tensor& x, const Dims& order);
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b);
/// Reverses the order along each of dims (a copy).
Tensor flip(const Tensor& x, const Dims& dims);
/// Joins along an existing (new) dimension.
Tensor cat(const Tensors& xs, std::int64_t dim = 0);
Tensor stack(const Tensors& xs, std::int64_t dim = 0);
/// Views of `size` along dim, the last one smaller if need be.
Tensors split(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
/// At most `chunks` views of equal size, ceil(n / chunks).
Tensors chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);
/// Dense in the given order; x itself when it is so already.
Tensor contiguous(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous);
/// A copy of the elements, keeping the layout where it is dense.
Tensor clone(const Tensor& x);
/// x converted; x itself when it has that dtype (is on that device) already.
Tensor to(const Tensor& x, DType dtype);
Tensor to(const Tensor& x, Device device);

}  // namespace rondo
