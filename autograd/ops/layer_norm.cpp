// layer_norm: normalises rows, each by its own mean and standard deviation. Uses a kernel if the
// backend has one for x's dtype; else, and for second derivatives, it is composed of ops.

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
  const char* name() const override { return "layer_norm"; }

  // Inputs: x (rows, n), gamma (n), beta (n).
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
  Tensors in_ops(const Tensor& dy) {
    const Tensor input = x.get(*this), scale = gamma.get(*this);
    const Normalized hat(input, {1}, eps);
    const Tensor g = scale.defined() ? dy * scale : dy;
    const Tensor dx = hat.invstd * (g - rondo::mean(g, {1}, true) -
                                    hat.value * rondo::mean(g * hat.value, {1}, true));
    return {dx, wants(1) ? sum(dy * hat.value, {0}) : Tensor(), wants(2) ? sum(dy, {0}) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    gamma.reset();
  }
};

bool has_layer_norm_kernel(const Tensor& x) {
  return x.numel() > 0 && backend(x).has_layer_norm(x);
}

/// For x as rows of n values; gamma and beta have n values and may each be undefined.
Tensor fused_layer_norm(const Tensor& x, std::int64_t n, const Tensor& gamma, const Tensor& beta,
                        double eps) {
  const auto flat = [&](const Tensor& v) {
    return v.defined() ? contiguous(reshape(to(v, x.dtype()), {n})) : v;
  };
  const Tensor rows = contiguous(reshape(x, {x.numel() / n, n}));
  const Tensor scale = flat(gamma), shift = flat(beta);
  const Tensor y = Tensor::empty_like(rows);
  const Tensor mean = Tensor::empty({rows.size(0)}, {.device = x.device()});
  const Tensor invstd = Tensor::empty_like(mean);
  backend(x).layer_norm(rows, scale, shift, eps, y, mean, invstd);
  if (beyond_f32(invstd)) {
    const Tensor wide = affine(Normalized(to(rows, f64), {1}, eps).value, scale, shift);
    return reshape(to(wide, x.dtype()), x.shape());
  }
  return reshape(record<LayerNormBackward>({rows, scale, shift}, y, rows, scale, mean, invstd, eps),
                 x.shape());
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
  Dims dims;
  for (std::int64_t i = 0; i < normalized_shape.size(); ++i) {
    std::int64_t d = x.dim() - normalized_shape.size() + i;
    require<ShapeError>(d >= 0 && x.size(d) == normalized_shape[i], "layer_norm: input ", x.shape(),
                        " does not end in ", normalized_shape);
    dims.push_back(d);
  }
  if (TraceMode::is_enabled() && GradMode::is_enabled()) {
    const Tensor y = no_grad([&] { return layer_norm(x, normalized_shape, gamma, beta, eps); });
    return record<TracedNorm>({x, gamma, beta}, y, "layer_norm", eps, dims.size());
  }
  const Tensor wide = widened(x);
  if (has_layer_norm_kernel(wide))
    return to(fused_layer_norm(wide, numel_of(normalized_shape), gamma, beta, eps), x.dtype());
  return to(affine(Normalized(wide, dims, eps).value, gamma, beta), x.dtype());
}

}  // namespace rondo
