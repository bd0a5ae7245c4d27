#pragma once
// Loss functions. Formulas, defaults and reductions are those of torch.nn.functional: `none`
// returns one loss for each target, `mean` divides their sum by their number, `sum` does not.
//
// Losses of two tensors need equal shapes and throw ShapeError otherwise: broadcasting (N, 1)
// against (N) is always a mistake. Inputs must be floating-point (DTypeError).

#include "tensor/tensor.h"

namespace rondo {

enum class Reduction { none, mean, sum };

/// The mean of cross_entropy and nll_loss is over the targets that are not ignored. It is NaN if
/// all targets are ignored.
struct CrossEntropyOptions {
  Tensor weight = {};                // (C), a weight for each class; the mean divides by the sum of
                                     // the targets' weights
  std::int64_t ignore_index = -100;  // a target with this value is ignored
  double label_smoothing = 0;        // s in [0, 1]: the target is (1 - s) one_hot + s / C
  Reduction reduction = Reduction::mean;
};

/// -log softmax(logits)[target]. logits (N, C) or (N, C, ...), target i64 (N) or (N, ...); or, for
/// a single sample, logits (C) and a 0-dim target. Throws a ShapeError that names a target outside
/// 0 … C-1.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});
/// -log_probs[target], for log-probabilities of the same shapes. label_smoothing must be 0.
Tensor nll_loss(const Tensor& log_probs, const Tensor& target,
                const CrossEntropyOptions& options = {});
/// (x - y)^2.
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// |x - y|.
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// d < beta ? d^2 / (2 beta) : d - beta / 2, where d = |x - y|.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1,
                      Reduction reduction = Reduction::mean);
/// -(y log sigmoid(x) + (1-y) log(1 - sigmoid(x))), computed without overflow.
Tensor bce_with_logits(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// The scale of kl_div's target.
enum class TargetScale { probabilities, log_probabilities };
/// y (log y - x), where x holds log-probabilities; or exp(y) (y - x) if y holds log-probabilities,
/// too. `mean` divides by the number of elements, as PyTorch's reduction "mean" does ("batchmean"
/// is the sum divided by x.size(0)).
Tensor kl_div(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
              TargetScale target = TargetScale::probabilities);

}  // namespace rondo
