#pragma once
// Losses as callables that keep their options: `nn::CrossEntropyLoss loss({.label_smoothing =
// 0.1}); loss(logits, target)`. They are not modules, because they have neither parameters nor
// modes. Formulas, shapes and errors are in autograd/ops/loss.h.

#include <concepts>
#include <utility>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
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

/// A loss with one option, the reduction.
template <auto function>
struct LossOfTwo {
  LossOptions options;
  explicit LossOfTwo(LossOptions options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return function(x, y, options.reduction);
  }
};

using MSELoss = LossOfTwo<mse_loss>;
using L1Loss = LossOfTwo<l1_loss>;
using SoftMarginLoss = LossOfTwo<soft_margin_loss>;
using MultiLabelMarginLoss = LossOfTwo<multilabel_margin_loss>;

/// A loss of several tensors with several options.
template <class Options, auto function>
struct LossWith {
  Options options;
  explicit LossWith(Options options = {}) : options(std::move(options)) {}
  template <std::same_as<Tensor>... T>
  Tensor operator()(const T&... inputs) const {
    return function(inputs..., options);
  }
};

using BCELoss = LossWith<WeightedLossOptions, binary_cross_entropy>;
using HuberLoss = LossWith<HuberOptions, huber_loss>;
using PoissonNLLLoss = LossWith<PoissonNLLOptions, poisson_nll_loss>;
using GaussianNLLLoss = LossWith<GaussianNLLOptions, gaussian_nll_loss>;
using MarginRankingLoss = LossWith<MarginOptions, margin_ranking_loss>;
using CosineEmbeddingLoss = LossWith<MarginOptions, cosine_embedding_loss>;
using HingeEmbeddingLoss = LossWith<HingeEmbeddingOptions, hinge_embedding_loss>;
using MultiMarginLoss = LossWith<MultiMarginOptions, multi_margin_loss>;
using MultiLabelSoftMarginLoss = LossWith<WeightedLossOptions, multilabel_soft_margin_loss>;
using TripletMarginLoss = LossWith<TripletMarginOptions, triplet_margin_loss>;
using TripletMarginWithDistanceLoss =
    LossWith<TripletMarginWithDistanceOptions, triplet_margin_with_distance_loss>;
/// loss(log_probs, targets, input_lengths, target_lengths).
using CTCLoss = LossWith<CTCOptions, ctc_loss>;
/// Not losses, but called in the same way.
using PairwiseDistance = LossWith<PairwiseDistanceOptions, pairwise_distance>;
using CosineSimilarity = LossWith<CosineSimilarityOptions, cosine_similarity>;

struct SmoothL1Options {
  Reduction reduction = Reduction::mean;
  double beta = 1;
};
struct SmoothL1Loss {
  SmoothL1Options options;
  explicit SmoothL1Loss(SmoothL1Options options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return smooth_l1_loss(x, y, options.beta, options.reduction);
  }
};

/// Options weight, pos_weight, reduction.
struct BCEWithLogitsLoss {
  BceWithLogitsOptions options;
  explicit BCEWithLogitsLoss(BceWithLogitsOptions options = {}) : options(std::move(options)) {}
  Tensor operator()(const Tensor& logits, const Tensor& y) const {
    return bce_with_logits(logits, y, options);
  }
};

struct KLDivOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target is also given as log-probabilities
};
/// KL(y || x) = sum y (log y - x), where x holds log-probabilities.
struct KLDivLoss {
  KLDivOptions options;
  explicit KLDivLoss(KLDivOptions options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return kl_div(x, y, options.reduction,
                  options.log_target ? TargetScale::log_probabilities : TargetScale::probabilities);
  }
};

}  // namespace rondo::nn
