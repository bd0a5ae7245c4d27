#pragma once
// Losses as callables that keep their options: `nn::CrossEntropyLoss loss({.label_smoothing =
// 0.1}); loss(logits, target)`. They are not modules, because they have neither parameters nor
// modes. Formulas, shapes and errors are in autograd/ops/loss.h.

#include <utility>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"

namespace rondo::nn {

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

/// -log softmax(logits)[target]; options weight, ignore_index, label_smoothing, reduction.
struct CrossEntropyLoss {
  CrossEntropyOptions options;
  explicit CrossEntropyLoss(CrossEntropyOptions options = {}) : options(std::move(options)) {}
  Tensor operator()(const Tensor& logits, const Tensor& target) const {
    return cross_entropy(logits, target, options);
  }
};

/// -log_probs[target]; options weight, ignore_index, reduction.
struct NLLLoss {
  CrossEntropyOptions options;
  explicit NLLLoss(CrossEntropyOptions options = {}) : options(std::move(options)) {}
  Tensor operator()(const Tensor& log_probs, const Tensor& target) const {
    return nll_loss(log_probs, target, options);
  }
};

struct MSELoss {
  LossOptions options;
  explicit MSELoss(LossOptions options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return mse_loss(x, y, options.reduction);
  }
};

struct L1Loss {
  LossOptions options;
  explicit L1Loss(LossOptions options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return l1_loss(x, y, options.reduction);
  }
};

struct SmoothL1Options {
  double beta = 1;
  Reduction reduction = Reduction::mean;
};
struct SmoothL1Loss {
  SmoothL1Options options;
  explicit SmoothL1Loss(SmoothL1Options options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return smooth_l1_loss(x, y, options.beta, options.reduction);
  }
};

struct BCEWithLogitsLoss {
  LossOptions options;
  explicit BCEWithLogitsLoss(LossOptions options = {}) : options(options) {}
  Tensor operator()(const Tensor& logits, const Tensor& y) const {
    return bce_with_logits(logits, y, options.reduction);
  }
};

struct KLDivOptions {
  Reduction reduction = Reduction::mean;
  bool batch_mean = false;  // PyTorch's "batchmean": the sum divided by x.size(0), the true KL mean
  bool log_target = false;  // the target is also given as log-probabilities
};
/// KL(y || x) = sum y (log y - x), where x holds log-probabilities.
struct KLDivLoss {
  KLDivOptions options;
  explicit KLDivLoss(KLDivOptions options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    Reduction reduction = options.batch_mean ? Reduction::sum : options.reduction;
    Tensor loss =
        kl_div(x, y, reduction,
               options.log_target ? TargetScale::log_probabilities : TargetScale::probabilities);
    return options.batch_mean ? loss / static_cast<double>(x.size(0)) : loss;
  }
};

}  // namespace rondo::nn
