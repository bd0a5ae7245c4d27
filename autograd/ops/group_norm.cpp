// group_norm: normalisation over groups of channels of each image. Uses a kernel if the backend has
// one for x's dtype; else layer_norm of each group, followed by the affine map of each channel.

#include "autograd/autocast.h"
#include "autograd/ops/normalized.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using namespace normalization;

/// x (N, C, …) as (N, groups, values per group).
Tensor grouped(const Tensor& x, std::int64_t groups) {
  const std::int64_t plane = numel_of(Dims(x.shape().begin() + 2, x.shape().end()));
  return reshape(x, {x.size(0), groups, x.size(1) / groups * plane});
}

struct GroupNormBackward final : Node {
  SavedTensor x, gamma;
  Tensor mean, invstd;
  std::int64_t groups;
  double eps;

  GroupNormBackward(const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& invstd,
                    std::int64_t groups, double eps)
      : x(x), gamma(gamma), mean(mean), invstd(invstd), groups(groups), eps(eps) {}
  const char* name() const override { return "group_norm"; }

  // Inputs: x (N, C, …), gamma (C), beta (C).
  Tensors backward(const Tensors& dy) override {
    if (GradMode::is_enabled()) return in_ops(dy[0]);
    const Tensor input = x.get(*this);
    const Tensor dx = wants(0) ? Tensor::empty_like(input) : Tensor();
    const Tensor dgamma = factor_gradient(wants(1), input);
    const Tensor dbeta = factor_gradient(wants(2), input);
    const MemoryFormat format = backend(input).group_norm_format(input);
    backend(input).group_norm_backward(contiguous(dy[0], format), input, groups, gamma.get(*this),
                                       mean, invstd, dx, dgamma, dbeta);
    return {dx, dgamma, dbeta};
  }

  // The same in differentiable ops, for create_graph: the statistics are recomputed from x.
  Tensors in_ops(const Tensor& dy) {
    const Tensor input = x.get(*this), scale = gamma.get(*this);
    const Normalized hat(grouped(input, groups), {2}, eps);
    const Tensor g = grouped(scale.defined() ? dy * per_channel(scale, input) : dy, groups);
    const Tensor dx = hat.invstd * (g - rondo::mean(g, {2}, true) -
                                    hat.value * rondo::mean(g * hat.value, {2}, true));
    const Tensor dgamma =
        wants(1) ? sum(dy * reshape(hat.value, input.shape()), batch_dims(input)) : Tensor();
    return {reshape(dx, input.shape()), dgamma, wants(2) ? sum(dy, batch_dims(input)) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    gamma.reset();
  }
};

/// In a contiguous tensor the kernel works plane by plane, which is slow for planes of a few
/// pixels. Not used under TraceMode, because readers of graphs know layer_norm.
bool has_group_norm_kernel(const Tensor& x) {
  constexpr std::int64_t least_plane = 16;
  const bool traced = TraceMode::is_enabled() && GradMode::is_enabled();
  if (traced || x.numel() == 0 || !backend(x).has_group_norm(x)) return false;
  return x.numel() >= least_plane * x.size(0) * x.size(1) ||
         backend(x).group_norm_format(x) == MemoryFormat::channels_last;
}

Tensor fused_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma,
                        const Tensor& beta, double eps) {
  const auto flat = [&](const Tensor& v) { return v.defined() ? contiguous(to(v, x.dtype())) : v; };
  const Tensor dense = contiguous(x, backend(x).group_norm_format(x));
  const Tensor scale = flat(gamma), shift = flat(beta), y = Tensor::empty_like(dense);
  const Tensor mean = Tensor::empty({x.size(0), groups}, {.device = x.device()});
  const Tensor invstd = Tensor::empty_like(mean);
  backend(x).group_norm(dense, groups, scale, shift, eps, y, mean, invstd);
  if (beyond_f32(invstd)) {
    const Normalized wide(grouped(to(dense, f64), groups), {2}, eps);
    const Tensor y64 = affine_per_channel(reshape(wide.value, x.shape()), gamma, beta);
    return contiguous(to(y64, x.dtype()), dense.suggested_format());
  }
  return record<GroupNormBackward>({dense, scale, shift}, y, dense, scale, mean, invstd, groups,
                                   eps);
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta,
                  double eps) {
  const OpRange op("group_norm");
  if (const Casts cast{AutocastOp::group_norm, x})
    return group_norm(cast(x), groups, cast(gamma), cast(beta), eps);
  require_float(x, "group_norm");
  require_one_device("group_norm", {x, gamma, beta});
  require<ShapeError>(x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0, "group_norm: input ",
                      x.shape(), " does not divide into ", groups, " groups of channels");
  check_channels("group_norm", x, gamma, "gamma");
  check_channels("group_norm", x, beta, "beta");
  const Tensor wide = widened(x);
  if (has_group_norm_kernel(wide))
    return to(fused_group_norm(wide, groups, gamma, beta, eps), x.dtype());
  const Tensor rows = grouped(wide, groups);
  const Tensor normalized = reshape(layer_norm(rows, {rows.size(2)}, {}, {}, eps), x.shape());
  return to(affine_per_channel(normalized, gamma, beta), x.dtype());
}

}  // namespace rondo
