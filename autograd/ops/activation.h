#pragma once
// Activations, element by element, and softmax. Formulas and defaults are PyTorch's. All but relu
// want floats (DTypeError).

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

/// max(x, 0); NaN stays, and passes its gradient on.
Tensor relu(const Tensor& x);
/// x > 0 ? x : slope x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
enum class GeluApproximation { none, tanh };
/// x Phi(x), Phi the normal distribution; or its tanh approximation (Hendrycks & Gimpel 2016).
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::none);
/// x sigmoid(x).
Tensor silu(const Tensor& x);
/// log(1 + exp(x)), x itself above 20.
Tensor softplus(const Tensor& x);
/// exp(x) / sum exp(x) along `dim`.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// x - log sum exp(x) along `dim`.
Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// In training: zeroes each element with probability p and scales the rest by 1 / (1 - p).
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator& generator = default_generator());

}  // namespace rondo
