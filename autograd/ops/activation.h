#pragma once
// Elementwise activations, and softmax. Formulas and defaults are PyTorch's. All ops except relu
// need floating-point inputs (DTypeError).

#include "tensor/activation.h"
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
/// log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold. beta is 1 and the
/// threshold 20 if they are not given.
Tensor softplus(const Tensor& x);
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
/// exp(x) / sum exp(x) along `dim`.
Tensor softmax(const Tensor& x, std::int64_t dim);
/// x - log sum exp(x) along `dim`.
Tensor log_softmax(const Tensor& x, std::int64_t dim);
/// softmax(-x).
Tensor softmin(const Tensor& x, std::int64_t dim);
/// In training: zeroes each element with probability p and scales the others by 1 / (1 - p). Else
/// returns x.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator& generator = default_generator());

/// dropout of whole channels: x (N, C, L) or (C, L); (N, C, H, W) or (N, C, L); (N, C, D, H, W) or
/// (C, D, H, W). Throws ShapeError for other ranks.
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator& generator = default_generator());
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator& generator = default_generator());
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator& generator = default_generator());
/// In training: replaces each element with probability p by -1.7581, the limit of selu, and then
/// scales and shifts all so that mean 0 and variance 1 stay (Klambauer et al. 2017).
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                     Generator& generator = default_generator());
/// alpha_dropout of whole channels of x (N, C, ...).
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                             Generator& generator = default_generator());

// The following are composed of other ops (composed_activation.cpp). 16-bit floats are computed in
// f32 and rounded once.

/// max(x, 0) + alpha (exp(min(x, 0)) - 1).
Tensor elu(const Tensor& x, double alpha = 1);
/// 1.0507 elu(x, 1.6733), whose fixed point has mean 0 and variance 1 (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
/// max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1). Throws Error if alpha is 0.
Tensor celu(const Tensor& x, double alpha = 1);
/// a sigmoid(b), where a and b are the halves of x along dim. Throws ShapeError for an odd size.
Tensor glu(const Tensor& x, std::int64_t dim = -1);
/// x tanh(softplus(x)).
Tensor mish(const Tensor& x);
/// max(x, 0) + weight min(x, 0). weight has one element, or one for each channel of x (N, C, ...).
Tensor prelu(const Tensor& x, const Tensor& weight);
/// max(x, 0) + slope min(x, 0). In training each element has its own slope, drawn from
/// U(lower, upper); else the slope is their mean.
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false,
             Generator& generator = default_generator());
/// min(max(x, min_val), max_val). The gradient passes where min_val < x < max_val, and where x is
/// NaN. Throws Error if min_val exceeds max_val.
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
/// hardtanh(x, 0, 6).
Tensor relu6(const Tensor& x);
/// relu6(x + 3) / 6.
Tensor hardsigmoid(const Tensor& x);
/// x hardsigmoid(x).
Tensor hardswish(const Tensor& x);
/// |x| > lambd ? x : 0.
Tensor hardshrink(const Tensor& x, double lambd = 0.5);
/// sign(x) max(|x| - lambd, 0). Throws Error if lambd is negative.
Tensor softshrink(const Tensor& x, double lambd = 0.5);
/// x - tanh(x).
Tensor tanhshrink(const Tensor& x);
/// x > threshold ? x : value.
Tensor threshold(const Tensor& x, double threshold, double value);
/// x / (1 + |x|).
Tensor softsign(const Tensor& x);
/// log(sigmoid(x)), computed without overflow.
Tensor logsigmoid(const Tensor& x);

namespace detail {
/// relu(x), gelu(x) by tanh, or x.
Tensor activated(const Tensor& x, Activation activation);
}  // namespace detail

}  // namespace rondo
