// The losses of two classes. The derivatives of their terms are infinite where the probability is 0
// or 1, but the derivatives of the sums are not. So each loss has a node.

#include <limits>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss_parts.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

struct BceWithLogitsBackward final : Node {
  SavedTensor x, y;
  BceWithLogitsBackward(const Tensor& x, const Tensor& y) : x(x), y(y) {}
  const char* name() const override { return "bce_with_logits"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = this->y.get(*this);
    return {wants(0) ? mul(sub(sigmoid(x), y), dy[0]) : Tensor(),
            wants(1) ? neg(mul(x, dy[0])) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

/// log(x) and log(1 - x), at least -100.
Tensor bounded_log(const Tensor& x) { return clamp(log(x), -100.0, no_limit); }
Tensor bounded_log_of_rest(const Tensor& x) { return clamp(log1p(neg(x)), -100.0, no_limit); }

struct BinaryCrossEntropyBackward final : Node {
  SavedTensor x, y;
  BinaryCrossEntropyBackward(const Tensor& x, const Tensor& y) : x(x), y(y) {}
  const char* name() const override { return "binary_cross_entropy"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = this->y.get(*this);
    return {wants(0) ? dy[0] * (x - y) / clamp((1 - x) * x, 1e-12, no_limit) : Tensor(),
            wants(1) ? dy[0] * (bounded_log_of_rest(x) - bounded_log(x)) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

/// y log sigmoid(x). If y is 0, it is 0 even where the logarithm is -inf.
Tensor times_logsigmoid(const Tensor& y, const Tensor& x) {
  const Tensor logs = logsigmoid(x);
  return y * masked_fill(logs, logical_and(y == 0, isinf(logs)), 0.0);
}

}  // namespace

Tensor bce_with_logits(const Tensor& x, const Tensor& y, Reduction reduction) {
  const OpRange op("bce_with_logits");
  if (const Casts cast{AutocastOp::bce_with_logits, x})
    return bce_with_logits(cast(x), cast(y), reduction);
  require_pair(x, y, "bce_with_logits");
  const Tensor losses = pairwise(BinaryOp::bce_with_logits, x, y, "bce_with_logits");
  return reduced(record<BceWithLogitsBackward>({x, y}, losses, x, y), reduction);
}

Tensor bce_with_logits(const Tensor& x, const Tensor& y, const BceWithLogitsOptions& options) {
  const OpRange op("bce_with_logits");
  if (const Casts cast{AutocastOp::bce_with_logits, x})
    return bce_with_logits(cast(x), cast(y),
                           {.weight = cast(options.weight),
                            .reduction = options.reduction,
                            .pos_weight = cast(options.pos_weight)});
  require_pair(x, y, "bce_with_logits");
  const Tensor losses =
      options.pos_weight.defined()
          ? neg(times_logsigmoid(y * options.pos_weight, x) + times_logsigmoid(1 - y, neg(x)))
          : bce_with_logits(x, y, Reduction::none);
  return reduced(weighted("bce_with_logits", losses, options.weight), options.reduction);
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& y, const WeightedLossOptions& options) {
  const OpRange op("binary_cross_entropy");
  if (const Casts cast{AutocastOp::other_losses, x})
    return binary_cross_entropy(cast(x), cast(y),
                                {.weight = cast(options.weight), .reduction = options.reduction});
  require_pair(x, y, "binary_cross_entropy");
  require<DTypeError>(y.dtype() != boolean,
                      "binary_cross_entropy: the target is bool; convert it with target.to(f32)");
  if (x.device().is_cpu()) {
    const auto has_other_than_probabilities = [](const Tensor& t) {
      return no_grad([&] { return any(logical_not(logical_and(t >= 0, t <= 1))).item<bool>(); });
    };
    require(!has_other_than_probabilities(x),
            "binary_cross_entropy: an input is not a probability in [0, 1]; logits need "
            "bce_with_logits");
    require(!has_other_than_probabilities(y),
            "binary_cross_entropy: a target is not a probability in [0, 1]");
  }
  const Tensor losses =
      no_grad([&] { return neg(y * bounded_log(x) + (1 - y) * bounded_log_of_rest(x)); });
  return reduced(weighted("binary_cross_entropy",
                          record<BinaryCrossEntropyBackward>({x, y}, losses, x, y), options.weight),
                 options.reduction);
}

}  // namespace rondo
