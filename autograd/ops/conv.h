#pragma once
// Convolution in two dimensions, and the ops built on it: convolution in one dimension, and
// transposed convolution.
//
// The three primitives (forward, input gradient, weight gradient) are closed under differentiation:
// each is linear in both of its inputs, and the derivatives of each are the other two. So they give
// all derivatives, of any order.
//
// Read next: nn/module.h, which holds the weights.

#include <array>

#include "tensor/tensor.h"

namespace rondo {

struct Conv2dOptions {
  /// A number, or {height, width}.
  struct Pair {
    std::int64_t h, w;
    constexpr Pair(std::int64_t both) : h(both), w(both) {}
    constexpr Pair(int both) : h(both), w(both) {}
    constexpr Pair(std::int64_t h, std::int64_t w) : h(h), w(w) {}
  };
  Pair stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};

/// y[n,k,p,q] = bias[k] + sum over c,r,s of w[k,c,r,s] x[n,c,p*stride+r*dilation-padding, …].
/// x (N, C, H, W), w (K, C/groups, R, S), bias (K) or undefined, y (N, K, P, Q) with
/// P = (H + 2 padding - dilation (R-1) - 1) / stride + 1, rounded down. y is channels_last if the
/// backend prefers that. Throws ShapeError, DTypeError. Agrees with torch.nn.functional.conv2d.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
              Conv2dOptions options = {});

/// P in the formula above, along one dimension; 0 if the kernel is larger than the padded input.
/// Throws ShapeError if the size overflows int64_t.
std::int64_t conv_output_size(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                              std::int64_t padding, std::int64_t dilation);

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

/// conv2d along one dimension, for images of height 1: x (N, C, L), w (K, C/groups, R), bias (K) or
/// undefined, y (N, K, Q) with Q = (L + 2 padding - dilation (R-1) - 1) / stride + 1, rounded down.
/// Throws ShapeError, DTypeError. Agrees with torch.nn.functional.conv1d.
Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
              Conv1dOptions options = {});

struct ConvTranspose2dOptions {
  using Pair = Conv2dOptions::Pair;
  Pair stride = 1, padding = 0;
  /// Additional rows and columns at the end of y. A strided convolution gives the same output size
  /// for several input sizes; output_padding chooses among them.
  Pair output_padding = 0;
  std::int64_t groups = 1;
  Pair dilation = 1;
};

/// The transpose of conv2d: y[n,k,p*stride+r*dilation-padding, …] += w[c,k,r,s] x[n,c,p,q], then
/// bias[k] is added. x (N, C, H, W), w (C, K/groups, R, S), bias (K) or undefined, y (N, K, P, Q)
/// with P = (H-1) stride - 2 padding + dilation (R-1) + output_padding + 1. Throws DTypeError, and
/// ShapeError if that size is not positive or if output_padding is smaller than neither stride nor
/// dilation. Agrees with torch.nn.functional.conv_transpose2d.
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
                        ConvTranspose2dOptions options = {});

}  // namespace rondo
