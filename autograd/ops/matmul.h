#pragma once
// Matrix products.

#include "tensor/activation.h"
#include "tensor/tensor.h"

namespace rondo {

/// NumPy's and PyTorch's matmul: vectors, matrices, and batches that broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
/// (B, M, K) x (B, K, N).
Tensor bmm(const Tensor& a, const Tensor& b);
/// activation(x W^T + bias): x (..., in), weight (out, in), bias (out) or undefined. The activation
/// is applied on the way out, which saves the GPU two passes over memory and the CPU a tensor;
/// gelu_tanh only where no gradient is recorded, since that wants what it was given. What relu
/// makes of a NaN is then cuBLASLt's choice on a GPU: relu(linear(x, w, b)) always lets it through.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

namespace detail {
/// A batch of matrices: the leading dimensions of x expanded to `batch` and made one.
Tensor as_batch(const Tensor& x, const Dims& batch);
}  // namespace detail

}  // namespace rondo
