#pragma once
// Convolution in two dimensions.
//
// Its three primitives (forward, input gradient, weight gradient) are closed under differentiation:
// each is linear in both of its inputs, and the derivative of any of them is the other two. So all
// derivatives, of any order, are made of them.

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
/// P = (H + 2 padding - dilation (R-1) - 1) / stride + 1, rounded down. y is channels_last where
/// the backend likes it. Throws ShapeError, DTypeError. Agrees with torch.nn.functional.conv2d.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias = {},
              Conv2dOptions options = {});

}  // namespace rondo
