#include "autograd/ops/norm.h"

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/normalized.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using namespace normalization;

/// relu?(x_hat gamma + beta + residual?), in recorded ops.
Tensor finish(const Tensor& normalized, const Tensor& gamma, const Tensor& beta,
              const BatchNormOptions& options) {
  Tensor y = affine_per_channel(normalized, gamma, beta);
  if (options.residual.defined()) y = y + to(options.residual, y.dtype());
  return options.relu ? relu(y) : y;
}

struct BatchNormBackward final : Node {
  SavedTensor x, y, gamma;  // y is saved only with relu
  SavedTensor mask;         // where relu passed the gradient, if the kernel has written it
  Tensor beta;              // a copy, if relu's mask is recomputed from x
  Tensor mean, invstd;
  bool relu, has_residual;
  // Without a residual, relu's mask can be recomputed from x, unless y was rounded to 16 bits: a
  // value that underflowed to 0 has no gradient.
  bool mask_from_x;
  double eps;

  BatchNormBackward(const Tensor& x, const Tensor& y, const Tensor& gamma, const Tensor& shift,
                    const Tensor& mean, const Tensor& invstd, const Tensor& mask,
                    const BatchNormOptions& options)
      : x(x),
        y(options.relu ? SavedTensor(y, SavedTensor::output) : SavedTensor()),
        gamma(gamma),
        mask(mask.defined() ? SavedTensor(mask) : SavedTensor()),
        mean(mean),
        invstd(invstd),
        relu(options.relu),
        has_residual(options.residual.defined()),
        mask_from_x(relu && !mask.defined() && !has_residual && x.dtype() == f32),
        eps(options.eps) {
    if (mask_from_x && shift.defined()) {
      beta = Tensor::empty_like(shift);
      backend(shift).copy(shift, beta);
    }
  }
  const char* name() const override { return "batch_norm"; }

  // Inputs: x, gamma, beta, residual.
  Tensors backward(const Tensors& dy) override {
    if (GradMode::is_enabled()) return in_ops(dy[0]);
    Tensor input = x.get(*this), scale = gamma.get(*this);
    Tensor dx = Tensor::empty_like(input);
    Tensor dgamma = wants(1) ? Tensor::empty_like(mean) : Tensor();
    Tensor dbeta = wants(2) ? Tensor::empty_like(mean) : Tensor();
    Tensor dresidual;
    if (wants(3)) dresidual = relu ? Tensor::empty_like(input) : dy[0];
    Tensor let_through = mask.get(*this);
    if (!let_through.defined() && relu && !mask_from_x) let_through = y.get(*this);
    backend(input).batch_norm_backward(dy[0], input, let_through, relu, in_f32(scale), beta, mean,
                                       invstd, dx, dgamma, dbeta, relu ? dresidual : Tensor());
    return {dx, dgamma, dbeta, dresidual};
  }

  // The same in differentiable ops, for create_graph. The statistics are recomputed from x, so that
  // the second derivative includes their dependence on x.
  Tensors in_ops(const Tensor& dy) {
    Tensor input = widened(x.get(*this)), scale = gamma.get(*this);
    Dims dims = batch_dims(input);
    Tensor kept = relu ? masked_fill(dy, le(y.get(*this), 0), 0.0) : dy;
    Tensor g = widened(kept);
    Normalized hat(input, dims, eps);
    Tensor dgamma = sum(g * hat.value, dims), dbeta = sum(g, dims);
    Tensor scaled = scale.defined() ? g * to(per_channel(scale, input), g.dtype()) : g;
    Tensor dx = hat.invstd * (scaled - rondo::mean(scaled, dims, true) -
                              hat.value * rondo::mean(scaled * hat.value, dims, true));
    return {to(dx, dy.dtype()), wants(1) ? to(dgamma, scale.dtype()) : Tensor(),
            wants(2) ? dbeta : Tensor(), wants(3) ? kept : Tensor()};
  }
  static Tensor in_f32(const Tensor& v) { return v.defined() ? to(v, f32) : v; }
  void release_saved() override {
    x.reset();
    y.reset();
    gamma.reset();
    mask.reset();
  }
};

Tensor composed(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                const Tensor& running_mean, const Tensor& running_var,
                const BatchNormOptions& options) {
  const Normalized hat =
      options.sum_over_ranks
          ? Normalized(widened(x), batch_dims(x), options.eps, options.sum_over_ranks)
          : Normalized(widened(x), batch_dims(x), options.eps);
  if (running_mean.defined()) {
    NoGradGuard guard;
    auto update = [&](const Tensor& running, const Tensor& batch) {
      running.copy_(to(running, batch.dtype()) * (1 - options.momentum) +
                    reshape(batch, running.shape()) * options.momentum);
    };
    update(running_mean, hat.mean);
    update(running_var, hat.unbiased);
  }
  return to(finish(hat.value, gamma, beta, options), x.dtype());
}

Tensor inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                 const Tensor& running_mean, const Tensor& running_var,
                 const BatchNormOptions& options) {
  if (TraceMode::is_enabled() && GradMode::is_enabled()) {
    Tensor y = no_grad(
        [&] { return inference(x, gamma, beta, running_mean, running_var, {.eps = options.eps}); });
    y = record<TracedNorm>({x, gamma, beta, running_mean, running_var}, y, "batch_norm_inference",
                           options.eps);
    if (options.residual.defined()) y = y + options.residual;
    return options.relu ? relu(y) : y;
  }
  const Tensor inputs[] = {x, gamma, beta, options.residual};
  if (x.dtype() == f64 || any_requires_grad(inputs)) {
    Tensor wide = widened(x);
    Tensor inv = rsqrt(to(running_var, wide.dtype()) + options.eps);
    Tensor centered = wide - per_channel(to(running_mean, wide.dtype()), x);
    return to(finish(centered * per_channel(inv, x), gamma, beta, options), x.dtype());
  }
  Tensor y = Tensor::empty_like(x);
  auto f32_of = [](const Tensor& v) { return v.defined() ? contiguous(to(v, f32)) : v; };
  backend(x).batch_norm_inference(x, f32_of(gamma), f32_of(beta), f32_of(running_mean),
                                  f32_of(running_var), options.eps,
                                  {.residual = options.residual, .relu = options.relu}, y);
  return y;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  const OpRange op("batch_norm");
  require<ShapeError>(x.dim() >= 2, "batch_norm: input ", x.shape(), " has no channel dimension");
  require_float(x, "batch_norm");
  require_one_device("batch_norm", {x, gamma, beta, running_mean, running_var, options.residual});
  check_channels("batch_norm", x, gamma, "gamma");
  check_channels("batch_norm", x, beta, "beta");
  check_channels("batch_norm", x, running_mean, "running_mean");
  check_channels("batch_norm", x, running_var, "running_var");
  require(running_mean.defined() == running_var.defined(),
          "batch_norm: running_mean and running_var must both be defined or both be undefined");
  require<ShapeError>(
      !options.residual.defined() || options.residual.shape() == x.shape(), "batch_norm: residual ",
      options.residual.defined() ? options.residual.shape() : Dims{}, " for an input ", x.shape());
  if (options.residual.defined() && options.residual.dtype() != x.dtype()) {
    // The kernels add in x's dtype, but a sum of two dtypes has the dtype that both promote to.
    BatchNormOptions alone = options;
    alone.residual = {};
    alone.relu = false;
    const Tensor y =
        batch_norm(x, gamma, beta, running_mean, running_var, alone) + options.residual;
    return options.relu ? relu(y) : y;
  }
  if (!options.training && running_mean.defined())
    return inference(x, gamma, beta, running_mean, running_var, options);
  if (x.numel() == 0 && !options.sum_over_ranks)  // an empty batch does not change the statistics
    return finish(x, gamma, beta, options);
  require<ShapeError>(
      x.numel() / std::max<std::int64_t>(x.size(1), 1) > 1 || options.sum_over_ranks,
      "batch_norm: training needs more than one value for each channel, the input is ", x.shape());
  // The kernel needs dense f32 statistics. Other cases (f64, 16-bit parameters) are composed of
  // ops.
  bool f32_parameters =
      (!gamma.defined() || gamma.dtype() == f32) && (!beta.defined() || beta.dtype() == f32) &&
      (!running_mean.defined() || (running_mean.dtype() == f32 && running_mean.is_contiguous() &&
                                   running_var.is_contiguous()));
  if (x.dtype() == f64 || !f32_parameters || options.sum_over_ranks)
    return composed(x, gamma, beta, running_mean, running_var, options);

  Tensor scale = gamma.defined() ? contiguous(gamma) : gamma;
  Tensor shift = beta.defined() ? contiguous(beta) : beta;
  Tensor y = Tensor::empty_like(x);
  Tensor mean = Tensor::empty({x.size(1)}, {.dtype = f32, .device = x.device()});
  Tensor invstd = Tensor::empty_like(mean);
  // The kernel fills it; allocated only if a gradient will need it.
  Tensor mask;
  const Tensor inputs[] = {x, scale, shift, options.residual};
  if (options.relu && any_requires_grad(inputs)) {
    if (const std::int64_t bytes = backend(x).batch_norm_mask_bytes(x); bytes > 0)
      mask = Tensor::empty({bytes}, {.dtype = u8, .device = x.device()});
  }
  backend(x).batch_norm(x, scale, shift, running_mean, running_var, options.momentum, options.eps,
                        {.residual = options.residual, .relu = options.relu, .mask = mask}, y, mean,
                        invstd);
  if (running_mean.defined()) {
    running_mean.bump_version();
    running_var.bump_version();
  }
  if (beyond_f32(invstd)) return to(composed(to(x, f64), gamma, beta, {}, {}, options), x.dtype());
  return record<BatchNormBackward>({x, scale, shift, options.residual}, y, x, y, scale, shift, mean,
                                   invstd, mask, options);
}

}  // namespace rondo
