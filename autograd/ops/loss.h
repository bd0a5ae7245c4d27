#pragma once
// Loss functions. Formulas, defaults and reductions are those of torch.nn.functional: `none`
// returns one loss for each target, `mean` divides their sum by their number, `sum` does not.
//
// Losses of two tensors need equal shapes and throw ShapeError otherwise: broadcasting (N, 1)
// against (N) is always a mistake. Inputs must be floating-point (DTypeError).

#include <functional>

#include "tensor/tensor.h"

namespace rondo {

/// batchmean, the sum divided by the size of the batch, is for kl_div only.
enum class Reduction { none, mean, sum, batchmean };

/// The mean of cross_entropy and nll_loss is over the targets that are not ignored. It is NaN if
/// all targets are ignored.
struct CrossEntropyOptions {
  Tensor weight = {};                // (C), a weight for each class; the mean divides by the sum of
                                     // the targets' weights
  std::int64_t ignore_index = -100;  // a target with this value is ignored
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // s in [0, 1]: the target is (1 - s) one_hot + s / C
};

/// -log softmax(logits)[target]. logits (N, C) or (N, C, ...), target i64 or u8 (N) or (N, ...);
/// or, for a single sample, logits (C) and a 0-dim target. Throws a ShapeError that names a target
/// outside 0 … C-1. A floating-point target of the logits' shape holds a probability for each
/// class: the loss is -Σ target log softmax(logits), its mean is over the samples even if classes
/// have weights, and ignore_index must keep its default.
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
struct HuberOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;
};
/// d < delta ? d^2 / 2 : delta (d - delta / 2), where d = |x - y|. Throws Error unless delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options = {});

/// weight and pos_weight broadcast to y.
struct BceWithLogitsOptions {
  Tensor weight = {};  // a factor for each loss
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};  // a factor for y
};
/// -(y log sigmoid(x) + (1-y) log(1 - sigmoid(x))), computed without overflow.
Tensor bce_with_logits(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor bce_with_logits(const Tensor& x, const Tensor& y, const BceWithLogitsOptions& options);

struct WeightedLossOptions {
  Tensor weight = {};  // a factor for each loss; broadcasts
  Reduction reduction = Reduction::mean;
};
/// -(y log x + (1-y) log(1-x)) for probabilities x, with logarithms of at least -100. Throws Error
/// for an x outside [0, 1] on the CPU; on other devices, the check would wait for the device.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& y,
                            const WeightedLossOptions& options = {});
/// The scale of kl_div's target.
enum class TargetScale { probabilities, log_probabilities };
/// y (log y - x), where x holds log-probabilities; or exp(y) (y - x) if y holds log-probabilities,
/// too. `mean` divides by the number of elements, `batchmean` by x.size(0): the true mean of the
/// divergence.
Tensor kl_div(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean,
              TargetScale target = TargetScale::probabilities);

// The following are composed of other ops (composed_loss.cpp, ctc_loss.cpp).

struct PoissonNLLOptions {
  bool log_input = true;  // x is the logarithm of the mean
  bool full = false;      // add Stirling's approximation of log y! where y > 1
  double eps = 1e-8;      // added to x in its logarithm, if log_input is false
  Reduction reduction = Reduction::mean;
};
/// exp(x) - y x, or x - y log(x + eps): the negative log-likelihood of counts y.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNLLOptions& options = {});

struct GaussianNLLOptions {
  bool full = false;  // add log(2 pi) / 2
  double eps = 1e-6;  // the least variance; the gradient ignores this bound
  Reduction reduction = Reduction::mean;
};
/// (log var + (x - y)^2 / var) / 2. var has the shape of x, or broadcasts to it, or has the shape
/// of x without the last dimension. Throws Error for a negative var on the CPU.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& var,
                         const GaussianNLLOptions& options = {});

struct MarginOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
/// max(0, margin - y (a - b)), where y is 1 if a should be larger, else -1.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                           const MarginOptions& options = {});
/// y = 1: 1 - cos(a, b); y = -1: max(0, cos(a, b) - margin). a and b (N, D), y (N); or (D) and
/// 0-dim.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                             const MarginOptions& options = {});
struct HingeEmbeddingOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};
/// y = 1: x; y = -1: max(0, margin - x).
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y,
                            const HingeEmbeddingOptions& options = {});

struct MultiMarginOptions {
  int p = 1;  // 1 or 2
  double margin = 1;
  Tensor weight = {};  // (C)
  Reduction reduction = Reduction::mean;
};
/// Σ over i ≠ y of weight[y] max(0, margin - x[y] + x[i])^p / C. x (N, C), y i64 (N); or (C) and
/// 0-dim. Throws a ShapeError that names a target outside 0 … C-1, on the CPU.
Tensor multi_margin_loss(const Tensor& x, const Tensor& y, const MultiMarginOptions& options = {});
/// Σ over j in y and i not in y of max(0, 1 - (x[j] - x[i])) / C. x and y (N, C) or (C); y is i64
/// and lists the classes of a sample, up to the first negative number.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y,
                              Reduction reduction = Reduction::mean);
/// log(1 + exp(-y x)), where y is 1 or -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// The mean over the last dimension of bce_with_logits.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y,
                                   const WeightedLossOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  // added to the differences
  bool keepdim = false;
};
/// ‖a - b + eps‖_p over the last dimension of the broadcast shapes.
Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                         const PairwiseDistanceOptions& options = {});
struct TripletMarginOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;  // use the distance from positive to negative if it is smaller
  Reduction reduction = Reduction::mean;
};
/// max(0, margin + d(anchor, positive) - d(anchor, negative)), where d is pairwise_distance.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});
struct TripletMarginWithDistanceOptions {
  /// Not given: pairwise_distance.
  std::function<Tensor(const Tensor&, const Tensor&)> distance_function = {};
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceOptions& options = {});

struct CTCOptions {
  std::int64_t blank = 0;  // the class that stands for no label
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  // 0 for a target that cannot be reached
};
/// Connectionist temporal classification (Graves et al. 2006): -log of the probability that
/// `target`, with repetitions and blanks, is what the steps of a sequence say. log_probs (T, N, C)
/// are log-probabilities; targets (N, S), or all targets in one dimension; input_lengths and
/// target_lengths (N), all i64 or i32, are how many steps and labels of each sequence count. Or,
/// for one sequence, (T, C), (S), and lengths of no dimension. `mean` divides each loss by its
/// target's length (at least 1) before it takes the mean. A target that needs more steps than there
/// are has the loss inf, whose gradient is 0 (PyTorch's is NaN). Waits for the device. Throws
/// ShapeError for lengths that do not fit and for labels outside 0 … C-1.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCOptions& options = {});

}  // namespace rondo
