#pragma once
// Elementwise activations, and softmax. Formulas and defaults are PyTorch's. All ops except relu
// need floating-point inputs (DTypeError).

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

/// max(x, 0). NaN stays NaN, and the gradient passes through it.
Tensor relu(const Tensor& x);
/// x > 0 ? x : slope x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
enum class GeluApproximation { none, tanh };
/// x Phi(x), where Phi is the cumulative normal distribution; or its tanh approximation (Hendrycks
/// & Gimpel 2016).
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::none);
/// x sigmoid(x).
Tensor silu(const Tensor& x);
/// log(1 + exp(x)); x itself above 20.
Tensor softplus(const Tensor& x);
/// exp(x) / sum exp(x) along `dim`.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// x - log sum exp(x) along `dim`.
Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// In training: zeroes each element with probability p and scales the others by 1 / (1 - p). Else
/// returns x.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator& generator = default_generator());

}  // namespace rondo
