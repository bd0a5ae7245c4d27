#include "autograd/ops/norm.h"

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
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

// What is composed of ops here is computed in f32 where x has 16 bits (widened): squares of f16
// overflow, and a mean rounded to bf16 shifts every element.

/// (x - mean) / sqrt(var + eps) over dims, in recording ops, and the statistics it used.
struct Normalized {
  Tensor value, mean, variance, invstd;
  Tensor unbiased;  // variance n / (n - 1), for n values a channel
  Normalized(const Tensor& x, const Dims& dims, double eps) : mean(rondo::mean(x, dims, true)) {
    Tensor centered = x - mean;
    variance = rondo::mean(square(centered), dims, true);
    invstd = rsqrt(variance + eps);
    value = centered * invstd;
    const auto n = static_cast<double>(x.numel()) / static_cast<double>(mean.numel());
    unbiased = variance * (n / (n - 1));
  }
  /// Over several processes, each with its own number of values: two sums, since a variance found
  /// from the squares alone would lose its digits.
  Normalized(const Tensor& x, const Dims& dims, double eps,
             const std::function<Tensor(const Tensor&)>& sum_over_ranks) {
    const Tensor sums = sum(x, dims, true);
    const std::int64_t channels = sums.numel();
    const Tensor own_n =
        full({1}, x.numel() / channels, {.dtype = x.dtype(), .device = x.device()});
    const Tensor totals = sum_over_ranks(cat({reshape(sums, {channels}), own_n}, 0));
    const Tensor n = narrow(totals, 0, channels, 1).detach();
    mean = reshape(narrow(totals, 0, 0, channels) / n, sums.shape());
    Tensor centered = x - mean;
    variance = sum_over_ranks(sum(square(centered), dims, true)) / n;
    invstd = rsqrt(variance + eps);
    value = centered * invstd;
    unbiased = variance * (n / maximum(n - 1, ones_like(n)));
  }
};

/// (C) as (1, C, 1, …), to broadcast over x (N, C, ...).
Tensor per_channel(const Tensor& v, const Tensor& x) {
  Dims sizes = Dims::filled(x.dim(), 1);
  sizes[1] = v.numel();
  return reshape(v, sizes);
}

/// Every dimension but that of the channels.
Dims batch_dims(const Tensor& x) {
  Dims dims;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) dims.push_back(d);
  }
  return dims;
}

Tensor affine(const Tensor& normalized, const Tensor& gamma, const Tensor& beta) {
  Tensor y = normalized;
  if (gamma.defined()) y = y * to(gamma, y.dtype());
  if (beta.defined()) y = y + to(beta, y.dtype());
  return y;
}

/// The same for gamma and beta (C), each of which may be undefined.
Tensor affine_per_channel(const Tensor& normalized, const Tensor& gamma, const Tensor& beta) {
  return affine(normalized, gamma.defined() ? per_channel(gamma, normalized) : gamma,
                beta.defined() ? per_channel(beta, normalized) : beta);
}

/// relu?(x_hat gamma + beta + residual?), in recording ops.
Tensor finish(const Tensor& normalized, const Tensor& gamma, const Tensor& beta,
              const BatchNormOptions& options) {
  Tensor y = affine_per_channel(normalized, gamma, beta);
  if (options.residual.defined()) y = y + to(options.residual, y.dtype());
  return options.relu ? relu(y) : y;
}

struct BatchNormBackward final : Node {
  SavedTensor x, y, gamma;  // y only where a relu followed
  SavedTensor mask;         // where the relu let through, if the kernel has written that
  Tensor beta;              // as it was, where the relu's mask is computed again from x
  Tensor mean, invstd;
  bool relu, has_residual;
  // Without a residual the relu's mask follows from x, unless y was rounded to 16 bits after it:
  // what underflowed to 0 there has no gradient.
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

  // The same in differentiable ops, for create_graph: the statistics are computed again from x, so
  // that the second derivative sees how they depend on it.
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

void check_float(const Tensor& x, const char* op) {
  require<DTypeError>(is_floating(x.dtype()), op, ": input of ", x.dtype(), ", not a float");
}

void check_channels(const char* op, const Tensor& x, const Tensor& v, const char* what) {
  require<ShapeError>(!v.defined() || (v.dim() == 1 && v.size(0) == x.size(1)), op, ": ", what,
                      " of shape ", v.defined() ? v.shape() : Dims{}, " for an input ", x.shape());
}

/// Under TraceMode: a normalisation as one node, as which readers of graphs know it.
struct TracedNorm final : Node {
  const char* op;
  double eps;
  std::int64_t dims;  // how many of the last ones are normalised over; 0: the running statistics'
  TracedNorm(const char* op, double eps, std::int64_t dims = 0) : op(op), eps(eps), dims(dims) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors&) override {
    throw AutogradError(concat("backward of ", op, ": was recorded under TraceMode, for a graph"));
  }
  void attributes(AttributeVisitor& v) override {
    v.real("eps", eps);
    if (dims > 0) v.integer("dims", dims);
  }
};

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
  const RecordOp op("batch_norm");
  require<ShapeError>(x.dim() >= 2, "batch_norm: input ", x.shape(), " has no channel dimension");
  check_float(x, "batch_norm");
  require_one_device("batch_norm", {x, gamma, beta, running_mean, running_var, options.residual});
  check_channels("batch_norm", x, gamma, "gamma");
  check_channels("batch_norm", x, beta, "beta");
  check_channels("batch_norm", x, running_mean, "running_mean");
  check_channels("batch_norm", x, running_var, "running_var");
  require(running_mean.defined() == running_var.defined(),
          "batch_norm: running_mean and running_var go together, one of them is undefined");
  require<ShapeError>(
      !options.residual.defined() || options.residual.shape() == x.shape(), "batch_norm: residual ",
      options.residual.defined() ? options.residual.shape() : Dims{}, " for an input ", x.shape());
  if (options.residual.defined() && options.residual.dtype() != x.dtype()) {
    // The kernels add in x's dtype; a sum of two dtypes has the one that they promote to.
    BatchNormOptions alone = options;
    alone.residual = {};
    alone.relu = false;
    const Tensor y =
        batch_norm(x, gamma, beta, running_mean, running_var, alone) + options.residual;
    return options.relu ? relu(y) : y;
  }
  if (!options.training && running_mean.defined())
    return inference(x, gamma, beta, running_mean, running_var, options);
  require<ShapeError>(
      x.numel() / std::max<std::int64_t>(x.size(1), 1) > 1 || options.sum_over_ranks,
      "batch_norm: more than one value for each channel is needed in training, input is ",
      x.shape());
  // The kernel wants dense f32 statistics; anything else (f64, parameters of 16 bits) is composed
  // of ops.
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
  // Filled by the kernel; not worth writing where nobody will ask for it.
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
  return record<BatchNormBackward>({x, scale, shift, options.residual}, y, x, y, scale, shift, mean,
                                   invstd, mask, options);
}

Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& gamma,
                  const Tensor& beta, double eps) {
  const RecordOp op("layer_norm");
  if (const Casts cast{AutocastOp::layer_norm, x})
    return layer_norm(cast(x), normalized_shape, cast(gamma), cast(beta), eps);
  check_float(x, "layer_norm");
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
  return to(affine(Normalized(widened(x), dims, eps).value, gamma, beta), x.dtype());
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta,
                  double eps) {
  const RecordOp op("group_norm");
  if (const Casts cast{AutocastOp::group_norm, x})
    return group_norm(cast(x), groups, cast(gamma), cast(beta), eps);
  check_float(x, "group_norm");
  require<ShapeError>(x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0, "group_norm: input ",
                      x.shape(), " does not divide into ", groups, " groups of channels");
  check_channels("group_norm", x, gamma, "gamma");
  check_channels("group_norm", x, beta, "beta");
  std::int64_t plane = numel_of(Dims(x.shape().begin() + 2, x.shape().end()));
  Tensor grouped = reshape(widened(x), {x.size(0), groups, x.size(1) / groups * plane});
  Tensor normalized = reshape(Normalized(grouped, {2}, eps).value, x.shape());
  return to(affine_per_channel(normalized, gamma, beta), x.dtype());
}

}  // namespace rondo
