#pragma once
// Loss functions. Formulas, defaults and reductions are those of torch.nn.functional: none gives
// one loss for each target, mean divides by their number, sum does not.
//
// Losses of two tensors want equal shapes and throw ShapeError otherwise: broadcasting (N, 1)
// against (N) is never what was meant. Inputs are floats (DTypeError).

#include "tensor/tensor.h"

namespace rondo {

enum class Reduction { none, mean, sum };

/// The mean of cross_entropy and nll_loss is over the targets that are not ignored, NaN if there
/// are none.
struct CrossEntropyOptions {
  Tensor weight = {};                // (C), a weight for each class; the mean divides by their sum
  std::int64_t ignore_index = -100;  // a target that counts for nothing
  double label_smoothing = 0;        // s in [0, 1]: the target is (1 - s) one_hot + s / C
  Reduction reduction = Reduction::mean;
};

/// -log softmax(logits)[target]; logits (N, C) or (N, C, ...), target i64 (N) or (N, ...), or one
/// case alone: logits (C) and a 0-dim target. Throws ShapeError naming a target outside 0 … C-1.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});
/// -log_probs[target], for log-probabilities of the same shapes; label_smoothing must be 0.
Tensor nll_loss(const Tensor& log_probs, const Tensor& target,
                const CrossEntropyOptions& options = {});
/// (x - y)^2.
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// |x - y|.
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// d = |x - y|: d < beta ? d^2 / (2 beta) : d - beta / 2.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1,
                      Reduction reduction = Reduction::mean);
/// -(y log sigmoid(x) + (1-y) log(1 - sigmoid(x))), computed without overflow.
Tensor bce_with_logits(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// What a target of kl_div is given as.
enum class TargetScale { probabilities, log_probabilities };
/// y (log y - x), or exp(y) (y - x) for log-probabilities y, x being log-probabilities; mean
/// divides by the number of elements, as PyTorch's reduction "mean" does ("batchmean" is sum
/// divided by x.size(0)).
Tensor kl_div(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
              TargetScale target = TargetScale::probabilities);

}  // namespace rondo
