// Losses. Nearly every training step ends with cross-entropy, so it has one kernel for forward and
// one for backward, unless classes have weights. The other losses are composed of ops, which have
// their own derivatives.

#include "autograd/ops/loss.h"

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss_parts.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Checks scores (N, C, ...) against class indices (N, ...).
void check_targets(const char* op, const Tensor& scores, const Tensor& target,
                   const CrossEntropyOptions& options) {
  require_float(scores, op);
  require<ShapeError>(scores.dim() >= 2, op, ": input ", scores.shape(), " is not (N, C, ...)");
  if (target.dtype() != i64) {
    const std::string or_what =
        op == std::string_view("cross_entropy")
            ? concat(", or probabilities of the input's shape ", scores.shape())
            : "";
    detail::fail<DTypeError>(
        {op, ": the target is ", target.dtype(), "; expected i64 class indices", or_what});
  }
  Dims expected = scores.shape();
  expected.erase(1);
  require_one_device(op, {scores, target, options.weight});
  std::int64_t classes = scores.size(1);
  require<ShapeError>(target.shape() == expected, op, ": input ", scores.shape(),
                      " needs a target of shape ", expected, ", not ", target.shape());
  if (options.weight.defined()) {
    require<ShapeError>(options.weight.shape() == Dims{classes}, op, ": weight ",
                        options.weight.shape(), " does not fit the ", classes, " classes");
  }
  if (!target.device().is_cpu())
    return;  // on other devices the kernels check; a check here would
             // wait for the device
  Tensor dense = contiguous(target);
  const auto* values = dense.data_ptr<std::int64_t>();
  for (std::int64_t i = 0, n = dense.numel(); i < n; ++i) {
    require<ShapeError>(
        values[i] == options.ignore_index || (values[i] >= 0 && values[i] < classes), op,
        ": target ", values[i], " at index ", i, " is not one of the ", classes,
        " classes (valid: 0 to ", classes - 1, ", and ignore_index ", options.ignore_index, ")");
  }
}

/// The target distributions (1 - s) one_hot + s / C, in logits' shape.
Tensor distributions(const Tensor& logits, const Tensor& target, const CrossEntropyParams& params) {
  Tensor safe = masked_fill(target, eq(target, params.ignore_index), 0);
  Tensor hot = to(one_hot(safe, logits.size(1)), logits.dtype());
  Dims classes_second = {0, hot.dim() - 1};
  for (std::int64_t d = 1; d + 1 < hot.dim(); ++d) classes_second.push_back(d);
  double share = params.label_smoothing / static_cast<double>(logits.size(1));
  return add(mul(permute(hot, classes_second), 1 - params.label_smoothing), share);
}

/// d loss / d logits = (softmax(logits) - t) dy, with dy expanded over the lines.
struct CrossEntropyBackward final : Node {
  SavedTensor logits, target;  // target (N, 1, …)
  Tensor lines;                // as in Backend::cross_entropy
  Tensor total;                // the divisor of the mean; undefined for other reductions
  CrossEntropyParams params;
  CrossEntropyBackward(const Tensor& logits, const Tensor& target, const Tensor& lines,
                       const Tensor& total, const CrossEntropyParams& params)
      : logits(logits), target(target), lines(lines), total(total), params(params) {}
  const char* name() const override { return "cross_entropy"; }
  Tensors backward(const Tensors& dy) override {
    Tensor logits = this->logits.get(*this), target = this->target.get(*this);
    Tensor weight = to(dy[0], lines.dtype());
    if (total.defined()) weight = div(weight, total);
    if (weight.dim() > 0) weight = unsqueeze(weight, 1);
    if (GradMode::is_enabled()) {  // second derivatives: differentiable in the logits
      Tensor t = no_grad([&] { return distributions(logits, squeeze(target, 1), params); });
      Tensor dx = mul(sub(softmax(logits, 1), t), to(weight, logits.dtype()));
      return {masked_fill(dx, eq(target, params.ignore_index), 0.0)};
    }
    Tensor dx = Tensor::empty_like(logits);
    backend(dx).cross_entropy_backward(expand(weight, target.shape()), logits, target, lines,
                                       params, dx);
    return {dx};
  }
  void release_saved() override {
    logits.reset();
    target.reset();
    lines = {};
    total = {};
  }
};

/// A single sample, scores (C) and a 0-dim target, as a batch of one.
template <class Loss>
Tensor of_one(Loss loss, const Tensor& scores, const Tensor& target,
              const CrossEntropyOptions& options) {
  Tensor y = loss(unsqueeze(scores, 0), unsqueeze(target, 0), options);
  return options.reduction == Reduction::none ? squeeze(y, 0) : y;
}

/// cross_entropy without class weights.
Tensor fused_cross_entropy(const Tensor& logits, const Tensor& target,
                           const CrossEntropyOptions& options) {
  const CrossEntropyParams params{options.ignore_index, options.label_smoothing};
  const TensorOptions wide{.dtype = logits.dtype() == f64 ? f64 : f32, .device = logits.device()};
  Tensor index = no_grad([&] { return unsqueeze(target, 1); });
  Dims sizes = index.shape();
  sizes.insert(0, 4);
  Tensor lines = Tensor::empty(sizes, wide);
  backend(logits).cross_entropy(logits, index, params, lines);
  Tensor y, total;
  if (options.reduction == Reduction::none) {
    y = Tensor::empty(target.shape(), logits.options());
    backend(y).copy(no_grad([&] { return squeeze(first_row(lines), 1); }), y);
  } else {  // the sums of the losses and of the target counts
    Tensor sums = Tensor::empty({2, 1}, wide);
    const std::int64_t count = target.numel();
    backend(sums).reduce(ReductionOp::sum, lines.as_view({2, count}, {count, 1}, 0), sums);
    y = sums.as_view({}, {}, 0);
    if (options.reduction == Reduction::mean) {
      total = sums.as_view({}, {}, 1);
      y = no_grad([&] { return div(y, total); });
    }
    y = to(y, logits.dtype());
  }
  return record<CrossEntropyBackward>({logits}, y, logits, index, lines, total, params);
}

/// The weights of single targets, some of which may be ignored.
struct TargetWeights {
  Tensor ignored;    // boolean, of the target's shape
  Tensor of_target;  // weight[target], or undefined; 0 where ignored
  Tensor total;      // the divisor of the mean

  TargetWeights(const Tensor& target, const Tensor& safe, const CrossEntropyOptions& options,
                DType dtype)
      : ignored(eq(target, options.ignore_index)) {
    if (options.weight.defined()) {
      Tensor picked = index_select(to(options.weight, dtype), 0, reshape(safe, {safe.numel()}));
      of_target = masked_fill(reshape(picked, target.shape()), ignored, 0.0);
      total = sum(of_target);
    } else {
      total = to(sum(logical_not(ignored)), dtype == f64 ? f64 : f32);
    }
  }
};

Tensor weighted(const Tensor& losses, const TargetWeights& weights, Reduction reduction) {
  if (reduction == Reduction::mean) return to(div(sum(losses), weights.total), losses.dtype());
  return reduced(losses, reduction);
}

/// Targets as valid indices: 0 for ignored targets.
Tensor without_ignored(const Tensor& target, const CrossEntropyOptions& options) {
  return masked_fill(target, eq(target, options.ignore_index), 0);
}

/// cross_entropy of targets that are probabilities.
Tensor of_probabilities(const Tensor& logits, const Tensor& target,
                        const CrossEntropyOptions& options) {
  require(options.ignore_index < 0,
          "cross_entropy: ignore_index needs a target of class indices; the target is ",
          target.dtype());
  const std::int64_t dim = logits.dim() == 1 ? 0 : 1, classes = logits.size(dim);
  const double s = options.label_smoothing;
  const Tensor t = s == 0 ? target : target * (1 - s) + s / static_cast<double>(classes);
  const Tensor log_probs = log_softmax(logits, dim);
  // A class of probability 0 adds 0, even if its logit is -inf.
  Tensor each = t * masked_fill(log_probs, logical_and(t == 0, isinf(log_probs)), 0.0);
  if (options.weight.defined()) {
    require<ShapeError>(options.weight.shape() == Dims{classes}, "cross_entropy: weight ",
                        options.weight.shape(), " does not fit the ", classes, " classes");
    Dims sizes = Dims::filled(logits.dim(), 1);
    sizes[dim] = classes;
    each = each * reshape(to(options.weight, logits.dtype()), sizes);
  }
  return reduced(neg(sum(each, {dim})), options.reduction);
}

}  // namespace

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const CrossEntropyOptions& options) {
  const OpRange op("nll_loss");
  if (const Casts cast{AutocastOp::nll_loss, log_probs})
    return nll_loss(cast(log_probs), target, options);
  if (target.dtype() == u8) return nll_loss(log_probs, to(target, i64), options);
  require(options.label_smoothing == 0,
          "nll_loss: label_smoothing must be 0; only cross_entropy supports it");
  if (log_probs.dim() == 1 && target.dim() == 0) {
    return of_one(nll_loss, log_probs, target, options);
  }
  check_targets("nll_loss", log_probs, target, options);
  Tensor safe = without_ignored(target, options);
  TargetWeights weights(target, safe, options, log_probs.dtype());
  Tensor losses = neg(squeeze(gather(log_probs, 1, unsqueeze(safe, 1)), 1));
  if (weights.of_target.defined()) losses = mul(losses, weights.of_target);
  return weighted(masked_fill(losses, weights.ignored, 0.0), weights, options.reduction);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  const OpRange op("cross_entropy");
  if (const Casts cast{AutocastOp::cross_entropy, logits})
    return cross_entropy(cast(logits), target, options);
  if (target.dtype() == u8) return cross_entropy(logits, to(target, i64), options);
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1,
          "cross_entropy: label_smoothing ", options.label_smoothing, " is not in [0, 1]");
  require(options.reduction != Reduction::batchmean,
          "cross_entropy: the reduction batchmean is for kl_div only; use mean or sum");
  if (is_floating(target.dtype()) && is_floating(logits.dtype()) && logits.dim() > 0 &&
      target.shape() == logits.shape())
    return of_probabilities(logits, target, options);
  if (logits.dim() == 1 && target.dim() == 0) {
    return of_one(cross_entropy, logits, target, options);
  }
  check_targets("cross_entropy", logits, target, options);
  // fused_cross_entropy needs one more dimension for its `lines`.
  if (!options.weight.defined() && logits.dim() < Dims::max_rank)
    return fused_cross_entropy(logits, target, options);
  Tensor log_probs = log_softmax(logits, 1);
  CrossEntropyOptions plain = options;
  plain.label_smoothing = 0;
  Tensor loss = nll_loss(log_probs, target, plain);
  if (options.label_smoothing == 0) return loss;
  // The part s / C of the target (1 - s) one_hot + s / C: each class has the same share.
  Tensor each = log_probs;
  if (options.weight.defined()) {
    Dims sizes = Dims::filled(logits.dim(), 1);
    sizes[1] = logits.size(1);
    each = mul(each, reshape(to(options.weight, logits.dtype()), sizes));
  }
  TargetWeights weights(target, without_ignored(target, options), options, logits.dtype());
  Tensor smooth = masked_fill(neg(sum(each, {1})), weights.ignored, 0.0);
  double share = options.label_smoothing / static_cast<double>(logits.size(1));
  return add(mul(loss, 1 - options.label_smoothing),
             mul(weighted(smooth, weights, options.reduction), share));
}

Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options) {
  const OpRange op("huber_loss");
  require(options.delta > 0, "huber_loss: delta ", options.delta, " is not positive");
  return smooth_l1_loss(x, y, options.delta, options.reduction) * options.delta;
}

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  const OpRange op("mse_loss");
  if (const Casts cast{AutocastOp::mse_loss, x}) return mse_loss(cast(x), cast(y), reduction);
  require_pair(x, y, "mse_loss");
  return reduced(square(sub(x, y)), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  const OpRange op("l1_loss");
  if (const Casts cast{AutocastOp::l1_loss, x}) return l1_loss(cast(x), cast(y), reduction);
  require_pair(x, y, "l1_loss");
  return reduced(abs(sub(x, y)), reduction);
}

namespace {

/// d loss / d x = clamp((x - y) / beta, -1, 1), one formula for both branches: outside the
/// quadratic part, the square of the difference may overflow, and 0 times inf is NaN.
struct SmoothL1Backward final : Node {
  SavedTensor x, y;
  double beta;
  SmoothL1Backward(const Tensor& x, const Tensor& y, double beta) : x(x), y(y), beta(beta) {}
  const char* name() const override { return "smooth_l1_loss"; }
  Tensors backward(const Tensors& dy) override {
    const DType x_dtype = this->x.get(*this).dtype(), y_dtype = this->y.get(*this).dtype();
    const Tensor x = widened(this->x.get(*this)), y = widened(this->y.get(*this));
    const Tensor slope = GradMode::is_enabled() ? clamp(div(sub(x, y), beta), -1.0, 1.0)
                                                : pairwise(BinaryOp::smooth_l1_backward, x, y,
                                                           name(), {.alpha = beta});
    const Tensor dx = mul(slope, dy[0]);
    return {to(dx, x_dtype), wants(1) ? to(neg(dx), y_dtype) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

}  // namespace

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, Reduction reduction) {
  const OpRange op("smooth_l1_loss");
  if (const Casts cast{AutocastOp::smooth_l1_loss, x})
    return smooth_l1_loss(cast(x), cast(y), beta, reduction);
  require_pair(x, y, "smooth_l1_loss");
  require(beta >= 0, "smooth_l1_loss: beta ", beta, " is negative");
  if (beta == 0) return reduced(abs(sub(x, y)), reduction);
  // A target of another dtype is not rounded to that of x.
  const bool one_dtype = x.dtype() == y.dtype();
  const Tensor losses = pairwise(BinaryOp::smooth_l1, one_dtype ? x : widened(x),
                                 one_dtype ? y : widened(y), "smooth_l1_loss", {.alpha = beta});
  return reduced(
      record<SmoothL1Backward>({x, y}, to(losses, result_type(x, y, "smooth_l1_loss")), x, y, beta),
      reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& y, Reduction reduction, TargetScale target) {
  const OpRange op("kl_div");
  if (const Casts cast{AutocastOp::kl_div, x}) return kl_div(cast(x), cast(y), reduction, target);
  require_pair(x, y, "kl_div");
  if (reduction == Reduction::batchmean) {
    require<ShapeError>(x.dim() > 0,
                        "kl_div: batchmean needs a batch, but the input has no dimension");
    return kl_div(x, y, Reduction::sum, target) / x.size(0);
  }
  if (target == TargetScale::log_probabilities) return reduced(mul(exp(y), sub(y, x)), reduction);
  Tensor log_y = log(masked_fill(y, eq(y, 0.0), 1.0));  // 0 log 0 = 0
  return reduced(mul(y, sub(log_y, x)), reduction);
}

}  // namespace rondo
