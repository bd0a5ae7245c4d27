// Initialisation (see init.h). Uniform and normal values come from the backend's Philox kernels.
// trunc_normal_ and orthogonal_ need more: they are computed in f64 on the host and copied in.

#include "nn/init.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "autograd/grad_mode.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo::nn::init {

namespace {

double fan_of(const Tensor& weight, FanMode mode) {
  Fans fans = calculate_fans(weight);
  return static_cast<double>(mode == FanMode::fan_in ? fans.in : fans.out);
}

double standard_normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// x with cdf(x) = p. Bisection: 60 halvings of [-40, 40] reach the spacing of f64 for any p. Speed
/// does not matter, because an initialisation runs once.
double inverse_standard_normal_cdf(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 60; ++i) {
    double middle = 0.5 * (low + high);
    (standard_normal_cdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Makes the rows of a (m, n), m <= n, orthonormal. Gram-Schmidt, twice for each row: one pass
/// leaves errors that grow with the condition number, and a second pass removes them ("twice is
/// enough", Parlett 1980). The triangular factor then has a positive diagonal, which makes the
/// result uniform over all orthonormal frames (Mezzadri 2007).
void orthonormalize_rows(double* a, std::int64_t m, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i) {
    double* row = a + i * n;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) {
        const double* other = a + j * n;
        double projection = dot(row, other, n);
        for (std::int64_t k = 0; k < n; ++k) row[k] -= projection * other[k];
      }
    }
    double length = std::sqrt(dot(row, row, n));
    for (std::int64_t k = 0; k < n; ++k) row[k] /= length;
  }
}

}  // namespace

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::conv:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      break;
  }
  return 0.75;
}

Fans calculate_fans(const Tensor& weight) {
  require<ShapeError>(weight.dim() >= 2,
                      "init: fan in and fan out need two dimensions, the weight is ",
                      weight.shape());
  std::int64_t field = 1;
  for (std::int64_t i = 2; i < weight.dim(); ++i) field *= weight.size(i);
  return {weight.size(1) * field, weight.size(0) * field};
}

const Tensor& uniform_(const Tensor& x, double low, double high, Generator& generator) {
  require(low <= high, "init::uniform_: low ", low, " is above high ", high);
  backend(x).uniform(x, generator.next(), low, high);
  x.bump_version();
  return x;
}

const Tensor& normal_(const Tensor& x, double mean, double stddev, Generator& generator) {
  require(stddev >= 0, "init::normal_: the standard deviation is ", stddev,
          ", but must not be negative");
  backend(x).normal(x, generator.next(), mean, stddev);
  x.bump_version();
  return x;
}

const Tensor& trunc_normal_(const Tensor& x, double mean, double stddev, double low, double high,
                            Generator& generator) {
  require(stddev > 0, "init::trunc_normal_: the standard deviation is ", stddev,
          ", but must be positive");
  require(low < high, "init::trunc_normal_: low ", low, " is not below high ", high);
  double from = standard_normal_cdf((low - mean) / stddev);
  double to = standard_normal_cdf((high - mean) / stddev);
  Tensor values = empty(x.shape(), {.dtype = f64});
  uniform_(values, from, to, generator);
  double* value = values.data_ptr<double>();
  std::int64_t n = values.numel();
#pragma omp parallel for schedule(static) if (n > 1024)
  for (std::int64_t i = 0; i < n; ++i) {
    value[i] = std::clamp(mean + stddev * inverse_standard_normal_cdf(value[i]), low, high);
  }
  NoGradGuard no_grad;
  return x.copy_(values);
}

const Tensor& constant_(const Tensor& x, Scalar value) {
  NoGradGuard no_grad;
  return x.fill_(value);
}
const Tensor& zeros_(const Tensor& x) { return constant_(x, 0); }
const Tensor& ones_(const Tensor& x) { return constant_(x, 1); }

const Tensor& eye_(const Tensor& x) {
  require<ShapeError>(x.dim() == 2, "init::eye_: needs a matrix, but the shape is ", x.shape());
  NoGradGuard no_grad;
  return x.copy_(eye(x.size(0), x.size(1)));
}

const Tensor& dirac_(const Tensor& weight, std::int64_t groups) {
  require<ShapeError>(weight.dim() >= 3 && weight.dim() <= 5,
                      "init::dirac_: needs the weight of a convolution, with three to five "
                      "dimensions, but the shape is ",
                      weight.shape());
  require<ShapeError>(groups > 0 && weight.size(0) % groups == 0, "init::dirac_: ", groups,
                      " groups do not divide ", weight.size(0), " filters");
  NoGradGuard no_grad;
  weight.zero_();
  Tensor middles = weight;  // (K, C): the element in the middle of each window
  while (middles.dim() > 2) middles = middles.select(2, middles.size(2) / 2);
  const std::int64_t filters = weight.size(0) / groups;
  for (std::int64_t g = 0; g < groups; ++g)
    middles.narrow(0, g * filters, filters).copy_(eye(filters, weight.size(1)));
  return weight;
}

const Tensor& sparse_(const Tensor& x, double sparsity, double stddev, Generator& generator) {
  require<ShapeError>(x.dim() == 2, "init::sparse_: needs a matrix, but the shape is ", x.shape());
  require(sparsity >= 0 && sparsity <= 1, "init::sparse_: the sparsity is ", sparsity,
          ", but must be between 0 and 1");
  require(stddev >= 0, "init::sparse_: the standard deviation is ", stddev,
          ", but must not be negative");
  normal_(x, 0, stddev, generator);
  const std::int64_t rows = x.size(0);
  const auto zeros = static_cast<std::int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  NoGradGuard no_grad;
  for (std::int64_t column = 0; column < x.size(1); ++column) {
    const Tensor chosen = randperm(rows, {}, generator).narrow(0, 0, zeros).to(x.device());
    x.select(1, column).index_fill_(0, chosen, 0);
  }
  return x;
}

const Tensor& xavier_uniform_(const Tensor& weight, double gain, Generator& generator) {
  Fans fans = calculate_fans(weight);
  double bound = gain * std::sqrt(6.0 / static_cast<double>(fans.in + fans.out));
  return uniform_(weight, -bound, bound, generator);
}

const Tensor& xavier_normal_(const Tensor& weight, double gain, Generator& generator) {
  Fans fans = calculate_fans(weight);
  return normal_(weight, 0, gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out)),
                 generator);
}

const Tensor& kaiming_uniform_(const Tensor& weight, KaimingOptions options, Generator& generator) {
  double gain = calculate_gain(options.nonlinearity, options.slope);
  if (weight.numel() == 0) return weight;
  double bound = gain * std::sqrt(3.0 / fan_of(weight, options.mode));
  return uniform_(weight, -bound, bound, generator);
}

const Tensor& kaiming_normal_(const Tensor& weight, KaimingOptions options, Generator& generator) {
  double gain = calculate_gain(options.nonlinearity, options.slope);
  if (weight.numel() == 0) return weight;
  return normal_(weight, 0, gain / std::sqrt(fan_of(weight, options.mode)), generator);
}

const Tensor& orthogonal_(const Tensor& weight, double gain, Generator& generator) {
  require<ShapeError>(weight.dim() >= 2, "init::orthogonal_: needs two dimensions, the weight is ",
                      weight.shape());
  if (weight.numel() == 0) return weight;
  std::int64_t rows = weight.size(0), columns = weight.numel() / rows;
  bool wide = rows <= columns;
  std::int64_t m = wide ? rows : columns, n = wide ? columns : rows;
  Tensor frame = empty({m, n}, {.dtype = f64});
  normal_(frame, 0, 1, generator);
  orthonormalize_rows(frame.data_ptr<double>(), m, n);

  NoGradGuard no_grad;
  backend(frame).unary(UnaryOp::mul_scalar, frame, frame, {.alpha = gain});
  return weight.copy_((wide ? frame : frame.t()).reshape(weight.shape()));
}

}  // namespace rondo::nn::init
