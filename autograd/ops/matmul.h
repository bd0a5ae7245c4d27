#pragma once
// Matrix products.

#include "tensor/activation.h"
#include "tensor/tensor.h"

namespace rondo {

/// As matmul in NumPy and PyTorch: vectors, matrices, and batches that broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
/// (B, M, K) x (B, K, N).
Tensor bmm(const Tensor& a, const Tensor& b);
/// activation(x W^T + bias): x (..., in), weight (out, in), bias (out) or undefined. The kernel
/// applies the activation before it writes the result, which saves the GPU two passes over memory
/// and the CPU a tensor. gelu_tanh is fused only if no gradient is recorded, because its gradient
/// needs its input. On a GPU, cuBLASLt decides what the fused relu makes of a NaN; relu(linear(x,
/// w, b)) always keeps it.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

namespace detail {
/// A batch of matrices: the leading dimensions of x are expanded to `batch` and merged into one.
Tensor as_batch(const Tensor& x, const Dims& batch);
}  // namespace detail

}  // namespace rondo
