// layer_norm and rms_norm: normalise rows, each by its own mean (for rms_norm: 0) and standard
// deviation. They use a kernel if the backend has one for x's dtype; else, and for second
// derivatives, they are composed of ops.

#include <limits>

#include "autograd/autocast.h"
#include "autograd/ops/normalized.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using namespace normalization;

struct LayerNormBackward final : Node {
  SavedTensor x, gamma;
  Tensor mean, invstd;
  double eps;

  LayerNormBackward(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& invstd,
                    double eps)
      : x(x), gamma(gamma), mean(mean), invstd(invstd), eps(eps) {}
  const char* name() const override { return mean.defined() ? "layer_norm" : "rms_norm"; }

  // Inputs: x (rows, n), gamma (n), beta (n). The mean of RMS norm is undefined.
  Tensors backward(const Tensors& dy) override {
    if (GradMode::is_enabled()) return in_ops(dy[0]);
    const Tensor input = x.get(*this);
    const Tensor dx = wants(0) ? Tensor::empty_like(input) : Tensor();
    const Tensor dgamma = factor_gradient(wants(1), input);
    const Tensor dbeta = factor_gradient(wants(2), input);
    backend(input).layer_norm_backward(contiguous(dy[0]), input, gamma.get(*this), mean, invstd, dx,
                                       dgamma, dbeta);
    return {dx, dgamma, dbeta};
  }

  // The same in differentiable ops, for create_graph: the statistics are recomputed from x.
  Tensors in_ops(const Tensor& of_y) {
    const Tensor input = x.get(*this), scale = gamma.get(*this), dy = widened(of_y);
    const Normalized hat(widened(input), {1}, eps, mean.defined() ? Center::mean : Center::zero);
    const Tensor g = scale.defined() ? dy * scale : dy;
    Tensor dh = g - hat.value * rondo::mean(g * hat.value, {1}, true);
    if (mean.defined()) dh = dh - rondo::mean(g, {1}, true);
    const auto rounded = [&](const Tensor& t) { return to(t, input.dtype()); };
    return {rounded(hat.invstd * dh), wants(1) ? rounded(sum(dy * hat.value, {0})) : Tensor(),
            wants(2) ? rounded(sum(dy, {0})) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    gamma.reset();
  }
};

bool ends_in(const Tensor& x, const Dims& shape) {
  return shape.size() <= x.dim() && shape == Dims(x.shape().end() - shape.size(), x.shape().end());
}

Tensor composed(Center center, const Tensor& x, const Dims& dims, const Tensor& gamma,
                const Tensor& beta, double eps) {
  Normalized hat(widened(x), dims, eps, center);
  if (beyond_f32(hat.invstd)) hat = Normalized(to(x, f64), dims, eps, center);
  return to(affine(hat.value, gamma, beta), x.dtype());
}

/// For x as rows of n values; gamma and beta have n values and may each be undefined.
Tensor fused(Center center, const Tensor& x, std::int64_t n, const Tensor& gamma,
             const Tensor& beta, double eps) {
  const auto flat = [&](const Tensor& v) {
    return v.defined() ? contiguous(reshape(to(v, x.dtype()), {n})) : v;
  };
  const Tensor rows = contiguous(reshape(x, {x.numel() / n, n}));
  const Tensor scale = flat(gamma), shift = flat(beta);
  const Tensor y = Tensor::empty_like(rows);
  const TensorOptions wide = {.dtype = x.dtype() == f64 ? f64 : f32, .device = x.device()};
  const Tensor invstd = Tensor::empty({rows.size(0)}, wide);
  const Tensor mean = center == Center::mean ? Tensor::empty_like(invstd) : Tensor();
  backend(x).layer_norm(rows, scale, shift, eps, y, mean, invstd);
  if (beyond_f32(invstd)) return reshape(composed(center, rows, {1}, scale, shift, eps), x.shape());
  return reshape(record<LayerNormBackward>({rows, scale, shift}, y, rows, scale, mean, invstd, eps),
                 x.shape());
}

/// Normalises the last `count` dimensions of x. 16-bit floats are converted to f32 if there is no
/// kernel for them, or if a parameter has more bits.
Tensor normalized(Center center, const Tensor& x, std::int64_t count, const Tensor& gamma,
                  const Tensor& beta, double eps) {
  const auto as_x = [&](const Tensor& v) { return !v.defined() || v.dtype() == x.dtype(); };
  const bool direct = as_x(gamma) && as_x(beta) && backend(x).has_layer_norm(x);
  const Tensor in = direct ? x : widened(x);
  const Dims all = x.shape(), last(all.end() - count, all.end());
  // Exporters of graphs know the ops, but not rms_norm.
  const bool traced = TraceMode::is_enabled() && center == Center::zero;
  if (x.numel() > 0 && !traced && backend(in).has_layer_norm(in))
    return to(fused(center, in, numel_of(last), gamma, beta, eps), x.dtype());
  Dims dims;
  for (std::int64_t d = -count; d < 0; ++d) dims.push_back(d);
  return composed(center, x, dims, gamma, beta, eps);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& gamma,
                  const Tensor& beta, double eps) {
  const OpRange op("layer_norm");
  if (const Casts cast{AutocastOp::layer_norm, x})
    return layer_norm(cast(x), normalized_shape, cast(gamma), cast(beta), eps);
  require_float(x, "layer_norm");
  require_one_device("layer_norm", {x, gamma, beta});
  require<ShapeError>(!normalized_shape.empty(), "layer_norm: normalized_shape is empty");
  for (auto [v, what] : {std::pair{&gamma, "gamma"}, {&beta, "beta"}}) {
    require<ShapeError>(!v->defined() || v->shape() == normalized_shape, "layer_norm: ", what,
                        " of shape ", v->defined() ? v->shape() : Dims{},
                        " for a normalized_shape of ", normalized_shape);
  }
  const std::int64_t rank = normalized_shape.size();
  require<ShapeError>(ends_in(x, normalized_shape), "layer_norm: input ", x.shape(),
                      " does not end in ", normalized_shape);
  if (TraceMode::is_enabled() && GradMode::is_enabled()) {
    const Tensor y = no_grad([&] { return layer_norm(x, normalized_shape, gamma, beta, eps); });
    return record<TracedNorm>({x, gamma, beta}, y, "layer_norm", eps, rank);
  }
  return normalized(Center::mean, x, rank, gamma, beta, eps);
}

Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& gamma,
                std::optional<double> eps) {
  const OpRange op("rms_norm");
  if (const Casts cast{AutocastOp::layer_norm, x})
    return rms_norm(cast(x), normalized_shape, cast(gamma), eps);
  require_float(x, "rms_norm");
  require_one_device("rms_norm", {x, gamma});
  require<ShapeError>(!normalized_shape.empty() && ends_in(x, normalized_shape), "rms_norm: input ",
                      x.shape(), " does not end with the normalized shape ", normalized_shape);
  require<ShapeError>(!gamma.defined() || gamma.shape() == normalized_shape, "rms_norm: weight ",
                      gamma.defined() ? gamma.shape() : Dims(),
                      " does not have the normalized shape ", normalized_shape);
  const double spacing = x.dtype() == f64 ? std::numeric_limits<double>::epsilon()
                                          : std::numeric_limits<float>::epsilon();
  return normalized(Center::zero, x, normalized_shape.size(), gamma, {}, eps.value_or(spacing));
}

}  // namespace rondo
