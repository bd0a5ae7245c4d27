#pragma once
// Convolution in two dimensions, and the ops built on it: convolution in one and three dimensions,
// and transposed convolution.
//
// An image may lack the batch: conv2d of x (C, H, W) is y (K, P, Q), and so on.
//
// The three primitives (forward, input gradient, weight gradient) are closed under differentiation:
// each is linear in both of its inputs, and the derivatives of each are the other two. So they give
// all derivatives, of any order.
//
// Read next: nn/module.h, which holds the weights.

#include <array>

#include "tensor/activation.h"
#include "tensor/tensor.h"

namespace rondo {

struct Conv2dOptions {
  /// A number, or {height, width}.
  struct Pair {
    std::int64_t h, w;
    constexpr Pair(std::int64_t both) : h(both), w(both) {}
    constexpr Pair(int both) : h(both), w(both) {}
    Pair(bool) = delete;  // ceil_mode of a brace without names
    constexpr Pair(std::int64_t h, std::int64_t w) : h(h), w(w) {}
  };
  Pair stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};

/// y[n,k,p,q] = bias[k] + sum over c,r,s of w[k,c,r,s] x[n,c,p*stride+r*dilation-padding, …].
/// x (N, C, H, W), w (K, C/groups, R, S), bias (K) or undefined, y (N, K, P, Q) with
/// P = (H + 2 padding - dilation (R-1) - 1) / stride + 1, rounded down. y is channels_last if the
/// backend prefers that. Throws ShapeError, DTypeError. Agrees with torch.nn.functional.conv2d.
/// With an activation y is activation(y), which a GPU computes in the same kernel if measure_plans
/// (tensor/cuda.h) finds that faster.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias = {}, Conv2dOptions options = {},
              Activation activation = Activation::none);

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

struct Conv3dOptions {
  /// A number, or {depth, height, width}.
  struct Triple {
    std::int64_t d, h, w;
    constexpr Triple(std::int64_t all) : d(all), h(all), w(all) {}
    constexpr Triple(int all) : d(all), h(all), w(all) {}
    Triple(bool) = delete;  // ceil_mode of a brace without names
    constexpr Triple(std::int64_t d, std::int64_t h, std::int64_t w) : d(d), h(h), w(w) {}
  };
  Triple stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
};

/// conv2d with a third dimension: x (N, C, D, H, W), w (K, C/groups, T, R, S), bias (K) or
/// undefined, y (N, K, O, P, Q). It is one conv2d, in which the T slices that an output slice needs
/// are channels; so it copies x up to T times. Throws ShapeError, DTypeError. Agrees with
/// torch.nn.functional.conv3d.
Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
              Conv3dOptions options = {});

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

struct ConvTranspose1dOptions {
  std::int64_t stride = 1, padding = 0, output_padding = 0, groups = 1, dilation = 1;
};

/// The same in one dimension: x (N, C, L), w (C, K/groups, R), y (N, K, Q). Agrees with
/// torch.nn.functional.conv_transpose1d.
Tensor conv_transpose1d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
                        ConvTranspose1dOptions options = {});

struct ConvTranspose3dOptions {
  using Triple = Conv3dOptions::Triple;
  Triple stride = 1, padding = 0, output_padding = 0;
  std::int64_t groups = 1;
  Triple dilation = 1;
};

/// The same in three dimensions: x (N, C, D, H, W), w (C, K/groups, T, R, S), y (N, K, O, P, Q).
/// Agrees with torch.nn.functional.conv_transpose3d.
Tensor conv_transpose3d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
                        ConvTranspose3dOptions options = {});

}  // namespace rondo
