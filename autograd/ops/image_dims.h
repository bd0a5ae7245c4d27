#pragma once
// What convolutions and pooling have in common in one, two and three dimensions: checks, and images
// without a batch. Shared by conv.cpp, composed_conv.cpp, pool.cpp and composed_pool.cpp; not for
// users.

#include <cstdint>
#include <type_traits>

#include "autograd/ops/conv.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tensor/tensor.h"

namespace rondo {
namespace detail {

/// The numbers of a size, the first dimension first; and the reverse.
inline Dims dims_of(std::int64_t length) { return {length}; }
inline Dims dims_of(Conv2dOptions::Pair size) { return {size.h, size.w}; }
inline Dims dims_of(Conv3dOptions::Triple size) { return {size.d, size.h, size.w}; }
template <class Size>
Size size_of(const Dims& dims) {
  if constexpr (std::is_same_v<Size, std::int64_t>) {
    return dims[0];
  } else if constexpr (std::is_same_v<Size, Conv2dOptions::Pair>) {
    return {dims[0], dims[1]};
  } else {
    return {dims[0], dims[1], dims[2]};
  }
}

/// squeeze(y, dim), also of both results of a pooling with indices.
inline Tensor squeezed(const Tensor& y, std::int64_t dim) { return squeeze(y, dim); }
inline ValuesAndIndices squeezed(const ValuesAndIndices& y, std::int64_t dim) {
  return {squeeze(y.values, dim), squeeze(y.indices, dim)};
}

/// f(x); or, if x has `dims` - 1 dimensions, f of x as a batch of one, without that batch.
template <class F>
auto with_batch(const Tensor& x, std::int64_t dims, F f) {
  return x.dim() == dims - 1 ? squeezed(f(unsqueeze(x, 0)), 0) : f(x);
}

/// The options of a convolution, with one number for each dimension of the image.
struct ConvOptions {
  Dims stride, padding, dilation;
  std::int64_t groups;
  Dims output_padding = {};  // of a transposed one
};

/// The sizes P, Q, … of y = op(x, w, bias). Throws ShapeError or DTypeError if it is undefined.
Dims conv_sizes(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                const ConvOptions& options);
Dims conv_transpose_sizes(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const ConvOptions& options);

}  // namespace detail
}  // namespace rondo
