#pragma once
// Matrix products.

#include "tensor/tensor.h"

namespace rondo {

/// NumPy's and PyTorch's matmul: vectors, matrices, and batches that broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
/// (B, M, K) x (B, K, N).
Tensor bmm(const Tensor& a, const Tensor& b);
/// x W^T + bias: x (..., in), weight (out, in), bias (out) or undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace rondo
