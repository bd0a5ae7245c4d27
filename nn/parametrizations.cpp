#include "nn/parametrizations.h"

#include "autograd/checkpoint.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

std::int64_t dimension(const char* what, std::int64_t dim, const Tensor& weight) {
  require<ShapeError>(dim >= -weight.dim() && dim < weight.dim(), what, ": dim is ", dim,
                      ", but the weight ", weight.shape(), " has ", weight.dim(), " dimensions");
  return dim < 0 ? dim + weight.dim() : dim;
}

/// ‖v‖ for each index of `dim`, in a shape that broadcasts to v's.
Tensor norm_except(const Tensor& v, std::optional<std::int64_t> dim) {
  if (!dim) return norm(v);
  Dims others;
  for (std::int64_t d = 0; d < v.dim(); ++d)
    if (d != *dim) others.push_back(d);
  return others.empty() ? abs(v) : norm(v, others, true);
}

}  // namespace

WeightNorm::WeightNorm(const Tensor& weight, const WeightNormOptions& options) {
  if (options.dim && *options.dim != -1) dim = dimension("weight_norm", *options.dim, weight);
  const NoGradGuard no_grad;
  original0 = norm_except(weight, dim);
  original1 = weight.clone();
  original0.requires_grad_();
  original1.requires_grad_();
}

Tensor WeightNorm::weight() const { return original1 * (original0 / norm_except(original1, dim)); }

Tensor WeightNorm::forward(const Tensor&) {
  throw Error("WeightNorm: has no forward; call the layer whose weight it computes");
}

SpectralNorm::SpectralNorm(const Tensor& weight, const SpectralNormOptions& options)
    : options(options) {
  const std::int64_t dim = dimension("spectral_norm", options.dim.value_or(0), weight);
  require(options.n_power_iterations >= 1, "spectral_norm: n_power_iterations is ",
          options.n_power_iterations, ", but must be at least 1");
  this->options.dim = dim;
  original = weight.clone().requires_grad_();
  if (weight.dim() < 2) return;
  const NoGradGuard no_grad;
  const Tensor matrix = as_matrix();
  const auto random_unit = [&](std::int64_t length) {
    return normalize(randn({length}).to(weight.dtype()).to(weight.device()),
                     {.dim = 0, .eps = options.eps});
  };
  vectors.u = random_unit(matrix.size(0));
  vectors.v = random_unit(matrix.size(1));
  iterate(matrix, 15);
}

Tensor SpectralNorm::as_matrix() const { return movedim(original, *options.dim, 0).flatten(1); }

void SpectralNorm::iterate(const Tensor& matrix, std::int64_t times) {
  const NoGradGuard no_grad;
  const NormalizeOptions unit{.dim = 0, .eps = options.eps};
  for (std::int64_t i = 0; i < times; ++i) {
    vectors.u.copy_(normalize(matmul(matrix, vectors.v), unit));
    vectors.v.copy_(normalize(matmul(matrix.t(), vectors.u), unit));
  }
}

Tensor SpectralNorm::weight() {
  if (original.dim() < 2) return normalize(original, {.dim = 0, .eps = options.eps});
  const Tensor matrix = as_matrix();
  if (is_training() && !is_recomputing()) iterate(matrix, options.n_power_iterations);
  // Copies: a second forward before backward changes u and v.
  const Tensor u = vectors.u.clone(), v = vectors.v.clone();
  return original / dot(u, matmul(matrix, v));
}

Tensor SpectralNorm::forward(const Tensor&) {
  throw Error("SpectralNorm: has no forward; call the layer whose weight it computes");
}

Tensor SpectralNorm::Vectors::forward(const Tensor&) {
  throw Error("SpectralNorm: has no forward; call the layer whose weight it computes");
}

}  // namespace rondo::nn
