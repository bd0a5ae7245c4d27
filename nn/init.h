#pragma once
// Initialisation of weights. Names, formulas and defaults are those of torch.nn.init. Each function
// fills the tensor in place, without recording, and returns it.
//
// The idea behind kaiming and xavier: y = sum over fan_in inputs of w x has variance fan_in Var(w)
// Var(x), so a layer keeps its input's scale if Var(w) = gain^2 / fan. The gain compensates for
// what the activation loses (a relu halves the second moment: gain = sqrt 2).

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo::nn::init {

enum class Nonlinearity { linear, conv, sigmoid, tanh, relu, leaky_relu, selu };
enum class FanMode { fan_in, fan_out };

/// linear, conv, sigmoid 1; tanh 5/3; relu sqrt 2; leaky_relu sqrt(2 / (1 + slope^2)); selu 3/4.
double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

struct Fans {
  std::int64_t in, out;
};
/// For a weight (out, in, ...): in and out, each times the product of the other sizes. Throws
/// ShapeError for fewer than two dimensions.
Fans calculate_fans(const Tensor& weight);

/// U(low, high).
const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1,
                       Generator& generator = default_generator());
/// N(mean, stddev^2).
const Tensor& normal_(const Tensor& x, double mean = 0, double stddev = 1,
                      Generator& generator = default_generator());
/// N(mean, stddev^2) restricted to [low, high], computed by inverting its distribution function.
/// Throws Error unless stddev > 0 and low < high.
const Tensor& trunc_normal_(const Tensor& x, double mean = 0, double stddev = 1, double low = -2,
                            double high = 2, Generator& generator = default_generator());
const Tensor& constant_(const Tensor& x, Scalar value);
const Tensor& zeros_(const Tensor& x);
const Tensor& ones_(const Tensor& x);
/// Ones on the diagonal of a matrix, and zeros elsewhere. Throws ShapeError unless x has two
/// dimensions.
const Tensor& eye_(const Tensor& x);
/// A convolution that passes its input on: weight (K, C, ...) with three to five dimensions. In
/// each of `groups` groups of filters, filter i has a 1 in the middle of channel i, for as many
/// channels as there are, and zeros elsewhere. Throws ShapeError for other numbers of dimensions
/// and if `groups` does not divide K.
const Tensor& dirac_(const Tensor& weight, std::int64_t groups = 1);
/// N(0, stddev^2), and in each column ceil(sparsity rows) random elements are 0. Throws ShapeError
/// unless x has two dimensions, and Error unless sparsity is in [0, 1] and stddev is not negative.
const Tensor& sparse_(const Tensor& x, double sparsity, double stddev = 0.01,
                      Generator& generator = default_generator());

/// Glorot & Bengio 2010: U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)).
const Tensor& xavier_uniform_(const Tensor& weight, double gain = 1,
                              Generator& generator = default_generator());
/// N(0, s^2), s = gain sqrt(2 / (fan_in + fan_out)).
const Tensor& xavier_normal_(const Tensor& weight, double gain = 1,
                             Generator& generator = default_generator());

struct KaimingOptions {
  double slope = 0;  // of the leaky relu that follows (PyTorch's `a`)
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// He et al. 2015: U(-b, b), b = gain sqrt(3 / fan).
const Tensor& kaiming_uniform_(const Tensor& weight, KaimingOptions options = {},
                               Generator& generator = default_generator());
/// N(0, s^2), s = gain / sqrt(fan).
const Tensor& kaiming_normal_(const Tensor& weight, KaimingOptions options = {},
                              Generator& generator = default_generator());

/// Saxe et al. 2013: gain times a random matrix with orthonormal rows, or orthonormal columns if
/// there are more rows than columns. The weight is treated as a matrix (size(0), rest). Computed in
/// f64. Throws ShapeError for fewer than two dimensions.
const Tensor& orthogonal_(const Tensor& weight, double gain = 1,
                          Generator& generator = default_generator());

}  // namespace rondo::nn::init
