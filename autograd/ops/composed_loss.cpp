// The losses that are composed of other ops (see loss.h), and pairwise_distance.

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss_parts.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Checks scores (N, C) or (C) and returns them as (N, C).
Tensor rows_of_scores(const char* op, const Tensor& x) {
  require_float(x, op);
  require<ShapeError>((x.dim() == 1 || x.dim() == 2) && x.size(-1) > 0, op, ": input ", x.shape(),
                      " is not (N, C) or (C)");
  return x.dim() == 1 ? unsqueeze(x, 0) : x;
}

/// Throws for a class that is not below `classes`. Only on the CPU, because elsewhere it would wait
/// for the device.
void require_classes(const char* op, const Tensor& target, std::int64_t classes,
                     std::int64_t least) {
  require<DTypeError>(target.dtype() == i64, op, ": the target is ", target.dtype(),
                      ", not i64 class indices");
  if (!target.device().is_cpu()) return;
  for (const std::int64_t value : target.to_vector<std::int64_t>())
    require<ShapeError>(value >= least && value < classes, op, ": target ", value,
                        " is not one of the ", classes, " classes");
}

}  // namespace

Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNLLOptions& options) {
  const OpRange op("poisson_nll_loss");
  if (const Casts cast{AutocastOp::other_losses, x})
    return poisson_nll_loss(cast(x), cast(y), options);
  require_pair(x, y, "poisson_nll_loss");
  Tensor losses = options.log_input ? exp(x) - y * x : x - y * log(x + options.eps);
  if (options.full) {  // log y! is about y log y - y + log(2 pi y) / 2
    const Tensor small = y <= 1, count = masked_fill(y, small, 1.0);
    const Tensor stirling = count * log(count) - count + log(count * (2 * std::numbers::pi)) * 0.5;
    losses = losses + masked_fill(stirling, small, 0.0);
  }
  return reduced(losses, options.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& var,
                         const GaussianNLLOptions& options) {
  const OpRange op("gaussian_nll_loss");
  if (const Casts cast{AutocastOp::other_losses, x})
    return gaussian_nll_loss(cast(x), cast(y), cast(var), options);
  require_pair(x, y, "gaussian_nll_loss");
  const bool is_row = x.dim() > 0 && var.shape() == Dims(x.shape().begin(), x.shape().end() - 1);
  Tensor bounded = clone(is_row ? unsqueeze(var, -1) : var);
  require<ShapeError>(
      bounded.dim() == x.dim() && broadcast_shapes(bounded.shape(), x.shape()) == x.shape(),
      "gaussian_nll_loss: var ", var.shape(), " does not fit input ", x.shape());
  if (var.device().is_cpu())
    require(!any(var < 0).item<bool>(), "gaussian_nll_loss: var has a negative element");
  no_grad([&] { return bounded.copy_(clamp_min(bounded, options.eps)); });
  Tensor losses = (log(bounded) + square(x - y) / bounded) * 0.5;
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, options.reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                           const MarginOptions& options) {
  const OpRange op("margin_ranking_loss");
  if (const Casts cast{AutocastOp::other_losses, a})
    return margin_ranking_loss(cast(a), cast(b), cast(y), options);
  require_pair(a, b, "margin_ranking_loss");
  require_pair(a, y, "margin_ranking_loss");
  return reduced(clamp_min(y * (b - a) + options.margin, 0), options.reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const MarginOptions& options) {
  const OpRange op("cosine_embedding_loss");
  if (const Casts cast{AutocastOp::other_losses, a})
    return cosine_embedding_loss(cast(a), cast(b), cast(y), options);
  require_pair(a, b, "cosine_embedding_loss");
  require<ShapeError>(
      (a.dim() == 1 || a.dim() == 2) && y.shape() == Dims(a.shape().begin(), a.shape().end() - 1),
      "cosine_embedding_loss: inputs ", a.shape(), " and target ", y.shape(),
      " are not (N, D) and (N), or (D) and ()");
  const auto squares = [](const Tensor& x) { return sum(square(x), {-1}) + 1e-12; };
  const Tensor cosine = sum(a * b, {-1}) / sqrt(squares(a) * squares(b));
  return reduced(
      where(y == 1, 1 - cosine, 0.0) + where(y == -1, clamp_min(cosine - options.margin, 0), 0.0),
      options.reduction);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y,
                            const HingeEmbeddingOptions& options) {
  const OpRange op("hinge_embedding_loss");
  if (const Casts cast{AutocastOp::other_losses, x})
    return hinge_embedding_loss(cast(x), cast(y), options);
  require_pair(x, y, "hinge_embedding_loss");
  return reduced(where(y != 1, clamp_min(options.margin - x, 0), 0.0) + where(y != -1, x, 0.0),
                 options.reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& y, const MultiMarginOptions& options) {
  const OpRange op("multi_margin_loss");
  if (const Casts cast{AutocastOp::other_losses, x}) return multi_margin_loss(cast(x), y, options);
  const Tensor scores = rows_of_scores("multi_margin_loss", x);
  const std::int64_t n = scores.size(0), classes = scores.size(1);
  require<ShapeError>(y.shape() == Dims(x.shape().begin(), x.shape().end() - 1),
                      "multi_margin_loss: input ", x.shape(), " does not fit target ", y.shape());
  require(options.p == 1 || options.p == 2, "multi_margin_loss: p is ", options.p, ", not 1 or 2");
  require_classes("multi_margin_loss", y, classes, 0);
  const Tensor own = reshape(y, {n, 1});
  const Tensor excess = relu(scores - gather(scores, 1, own) + options.margin);
  const Tensor is_own = one_hot(reshape(y, {n}), classes) == 1;
  Tensor losses = masked_fill(options.p == 1 ? excess : square(excess), is_own, 0.0);
  if (options.weight.defined()) {
    require<ShapeError>(options.weight.shape() == Dims{classes}, "multi_margin_loss: weight ",
                        options.weight.shape(), " does not fit the ", classes, " classes");
    losses =
        losses * reshape(index_select(to(options.weight, x.dtype()), 0, reshape(y, {n})), {n, 1});
  }
  return reduced(reshape(mean(losses, {1}), y.shape()), options.reduction);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  const OpRange op("multilabel_margin_loss");
  if (const Casts cast{AutocastOp::other_losses, x})
    return multilabel_margin_loss(cast(x), y, reduction);
  const Tensor scores = rows_of_scores("multilabel_margin_loss", x);
  require_pair(x, y, "multilabel_margin_loss");
  require_classes("multilabel_margin_loss", y, scores.size(1),
                  std::numeric_limits<std::int64_t>::min());
  const Tensor lists = reshape(y, scores.shape());
  const Tensor listed = cumsum(to(lists < 0, i64), 1) == 0;  // before the first negative number
  const Tensor label = where(listed, lists, 0);
  const Tensor is_label = scatter_add(zeros_like(lists), 1, label, to(listed, i64)) > 0;
  // (N, label, other class)
  const Tensor excess = relu(unsqueeze(scores, 1) - unsqueeze(gather(scores, 1, label), 2) + 1.0);
  const Tensor counts = logical_and(unsqueeze(listed, 2), logical_not(unsqueeze(is_label, 1)));
  const Tensor losses = mean(sum(masked_fill(excess, logical_not(counts), 0.0), {1}), {1});
  return reduced(x.dim() == 1 ? squeeze(losses, 0) : losses, reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  const OpRange op("soft_margin_loss");
  if (const Casts cast{AutocastOp::other_losses, x})
    return soft_margin_loss(cast(x), cast(y), reduction);
  require_pair(x, y, "soft_margin_loss");
  return reduced(neg(logsigmoid(y * x)), reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y,
                                   const WeightedLossOptions& options) {
  const OpRange op("multilabel_soft_margin_loss");
  require<ShapeError>(x.dim() > 0, "multilabel_soft_margin_loss: input ", x.shape(),
                      " has no dimension of classes");
  const Tensor losses =
      bce_with_logits(x, y, {.weight = options.weight, .reduction = Reduction::none});
  return reduced(mean(losses, {-1}), options.reduction);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options) {
  const OpRange op("pairwise_distance");
  return vector_norm(a - b + options.eps, options.p, {-1}, options.keepdim);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  const OpRange op("triplet_margin_loss");
  const PairwiseDistanceOptions distance{.p = options.p, .eps = options.eps};
  return triplet_margin_with_distance_loss(
      anchor, positive, negative,
      {.distance_function = [&](const Tensor& a,
                                const Tensor& b) { return pairwise_distance(a, b, distance); },
       .margin = options.margin,
       .swap = options.swap,
       .reduction = options.reduction});
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceOptions& options) {
  const OpRange op("triplet_margin_with_distance_loss");
  if (const Casts cast{AutocastOp::other_losses, anchor})
    return triplet_margin_with_distance_loss(cast(anchor), cast(positive), cast(negative), options);
  require_pair(anchor, positive, OpName::called("triplet_margin_loss"));
  require_pair(anchor, negative, OpName::called("triplet_margin_loss"));
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return options.distance_function ? options.distance_function(a, b) : pairwise_distance(a, b);
  };
  Tensor apart = distance(anchor, negative);
  if (options.swap) apart = minimum(apart, distance(positive, negative));
  return reduced(clamp_min(distance(anchor, positive) - apart + options.margin, 0),
                 options.reduction);
}

}  // namespace rondo
