// The losses of composed_loss.cpp and binary_cross_entropy.cpp, and cross-entropy with
// probabilities as its target, against PyTorch (tests/golden/make_losses.py); at extreme values;
// their errors.

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "nn/losses.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
constexpr double unbounded = std::numeric_limits<double>::infinity();

struct Reduced {
  const char* name;
  Reduction reduction;
};
constexpr Reduced all_reductions[] = {{".none", Reduction::none}, {".mean", Reduction::mean}};

class ComposedLoss : public ::testing::TestWithParam<Reduced> {
 protected:
  const Reduction r = GetParam().reduction;

  void check(const std::string& name, const std::function<Tensor(X)>& f) {
    static const Golden golden("losses.txt");
    expect_case(golden, name + GetParam().name, f, 12, 4);
  }
  static Tensor row(X x) { return tensor<double>({0.5, 2, 1, 0.25}).to(x[0].dtype()); }
  static Tensor signs(X x) { return sign(fill({3, 4}, 2, 2)).to(x[0].dtype()); }
  static Tensor row_signs(X x) { return tensor<double>({1, -1, 1}).to(x[0].dtype()); }
};

TEST_P(ComposedLoss, OfProbabilities) {
  check("cross_entropy.soft", [&](X x) { return cross_entropy(x[0], x[1], {.reduction = r}); });
  check("cross_entropy.soft_all", [&](X x) {
    return cross_entropy(x[0], x[1], {.weight = row(x), .reduction = r, .label_smoothing = 0.2});
  });
  check("cross_entropy.soft_image", [&](X x) {
    return nn::CrossEntropyLoss({.reduction = r, .label_smoothing = 0.1})(x[0], x[1]);
  });
  check("bce_with_logits.weight",
        [&](X x) { return bce_with_logits(x[0], x[1], {.weight = row(x), .reduction = r}); });
  check("bce_with_logits.pos_weight", [&](X x) {
    return nn::BCEWithLogitsLoss({.reduction = r, .pos_weight = row(x)})(x[0], x[1]);
  });
  check("bce_with_logits.all", [&](X x) {
    const Tensor p = ((fill({3, 4}, 4) + 1) / 2).to(x[0].dtype());
    return bce_with_logits(x[0], x[1], {.weight = p, .reduction = r, .pos_weight = row(x) * 3});
  });
  check("binary_cross_entropy", [&](X x) { return nn::BCELoss({.reduction = r})(x[0], x[1]); });
  check("binary_cross_entropy.weight",
        [&](X x) { return binary_cross_entropy(x[0], x[1], {.weight = row(x), .reduction = r}); });
}

TEST_P(ComposedLoss, OfNumbers) {
  check("huber_loss", [&](X x) { return huber_loss(x[0], x[1], {.reduction = r}); });
  check("huber_loss.delta",
        [&](X x) { return nn::HuberLoss({.reduction = r, .delta = 0.4})(x[0], x[1]); });
  check("poisson_nll_loss", [&](X x) { return poisson_nll_loss(x[0], x[1], {.reduction = r}); });
  const Tensor counts = tensor<double>({0, 1, 2, 3, 5, 0, 1, 9, 4, 2, 0, 1}, {3, 4});
  check("poisson_nll_loss.full", [&](X x) {
    return nn::PoissonNLLLoss({.log_input = false, .full = true, .eps = 1e-3, .reduction = r})(
        x[0], counts.to(x[0].dtype()));
  });
  check("gaussian_nll_loss",
        [&](X x) { return gaussian_nll_loss(x[0], x[1], x[2], {.reduction = r}); });
  const nn::GaussianNLLLoss bounded({.full = true, .eps = 0.3, .reduction = r});
  check("gaussian_nll_loss.full", [&](X x) { return bounded(x[0], x[1], x[2]); });
  check("gaussian_nll_loss.column",
        [&](X x) { return gaussian_nll_loss(x[0], x[1], x[2], {.reduction = r}); });
}

TEST_P(ComposedLoss, OfMargins) {
  check("margin_ranking_loss",
        [&](X x) { return margin_ranking_loss(x[0], x[1], signs(x), {.reduction = r}); });
  check("margin_ranking_loss.margin", [&](X x) {
    return nn::MarginRankingLoss({.margin = 0.5, .reduction = r})(x[0], x[1], signs(x));
  });
  check("hinge_embedding_loss",
        [&](X x) { return hinge_embedding_loss(x[0], signs(x), {.reduction = r}); });
  check("hinge_embedding_loss.margin", [&](X x) {
    return nn::HingeEmbeddingLoss({.margin = 0.3, .reduction = r})(x[0], signs(x));
  });
  check("cosine_embedding_loss",
        [&](X x) { return cosine_embedding_loss(x[0], x[1], row_signs(x), {.reduction = r}); });
  check("cosine_embedding_loss.margin", [&](X x) {
    return nn::CosineEmbeddingLoss({.margin = 0.2, .reduction = r})(x[0], x[1], -row_signs(x));
  });
  check("multi_margin_loss", [&](X x) { return multi_margin_loss(x[0], x[1], {.reduction = r}); });
  check("multi_margin_loss.all", [&](X x) {
    return nn::MultiMarginLoss({.p = 2, .margin = 0.7, .weight = row(x), .reduction = r})(x[0],
                                                                                          x[1]);
  });
  check("multi_margin_loss.one",
        [&](X x) { return multi_margin_loss(x[0], x[1], {.reduction = r}); });
  check("multilabel_margin_loss", [&](X x) { return multilabel_margin_loss(x[0], x[1], r); });
  check("multilabel_margin_loss.one",
        [&](X x) { return nn::MultiLabelMarginLoss({r})(x[0], x[1]); });
  check("soft_margin_loss", [&](X x) { return nn::SoftMarginLoss({r})(x[0], signs(x)); });
  check("multilabel_soft_margin_loss", [&](X x) {
    return nn::MultiLabelSoftMarginLoss({.weight = row(x), .reduction = r})(x[0], x[1]);
  });
}

TEST_P(ComposedLoss, OfDistances) {
  check("triplet_margin_loss",
        [&](X x) { return triplet_margin_loss(x[0], x[1], x[2], {.reduction = r}); });
  check("triplet_margin_loss.all", [&](X x) {
    return nn::TripletMarginLoss({.margin = 2, .p = 3, .eps = 1e-3, .swap = true, .reduction = r})(
        x[0], x[1], x[2]);
  });
  check("triplet_margin_with_distance_loss", [&](X x) {
    return nn::TripletMarginWithDistanceLoss(
        {.distance_function = [](const Tensor& a,
                                 const Tensor& b) { return 1 - nn::CosineSimilarity()(a, b); },
         .margin = 0.5,
         .swap = true,
         .reduction = r})(x[0], x[1], x[2]);
  });
}

INSTANTIATE_TEST_SUITE_P(Reductions, ComposedLoss, ::testing::ValuesIn(all_reductions),
                         [](const auto& info) { return std::string(info.param.name + 1); });

TEST(PairwiseDistance, AgreesWithPyTorch) {
  const Golden golden("losses.txt");
  expect_case(
      golden, "pairwise_distance", [](X x) { return pairwise_distance(x[0], x[1]); }, 4);
  expect_case(
      golden, "pairwise_distance.all",
      [](X x) { return nn::PairwiseDistance({.p = 1, .eps = 0.1, .keepdim = true})(x[0], x[1]); },
      4);
  expect_case(
      golden, "pairwise_distance.row", [](X x) { return pairwise_distance(x[0], x[1]); }, 4);
}

/// Values and gradients of a loss of two tensors.
void expect_extremes(const std::function<Tensor(const Tensor&, const Tensor&)>& loss,
                     const std::vector<double>& xs, const std::vector<double>& ys,
                     const std::vector<double>& wanted, const std::vector<double>& gradients) {
  const Tensor x = leaf(xs), y = tensor(ys);
  const Tensor losses = loss(x, y);
  sum(losses).backward();
  EXPECT_TRUE(all_close(losses.detach(), tensor(wanted), 1e-12, 1e-12));
  EXPECT_TRUE(all_close(x.grad(), tensor(gradients), 1e-12, 1e-12));
}

TEST(ComposedLossAtExtremes, HasNoNaN) {
  const Reduction each = Reduction::none;
  // PyTorch's bound of the logarithm is -100, and of the gradient's divisor 1e-12.
  expect_extremes([&](const Tensor& x,
                      const Tensor& y) { return binary_cross_entropy(x, y, {.reduction = each}); },
                  {0, 1, 0, 1}, {0, 1, 1, 0}, {0, 0, 100, 100}, {0, 0, -1e12, 1e12});
  const auto with_pos_weight = [&](const Tensor& x, const Tensor& y) {
    return bce_with_logits(x, y, {.reduction = each, .pos_weight = tensor<double>({3})});
  };
  expect_extremes(with_pos_weight, {unbounded, -unbounded, -unbounded, unbounded, 1e300, -1e300},
                  {1, 0, 1, 0, 1, 1}, {0, 0, unbounded, unbounded, 0, 3e300}, {0, 0, -3, 1, 0, -3});
  // A small factor does not cancel digits.
  expect_extremes(
      [&](const Tensor& x, const Tensor& y) {
        return bce_with_logits(x, y, {.reduction = each, .pos_weight = tensor<double>({1e-12})});
      },
      {-50}, {1}, {50e-12}, {-1e-12});
  expect_extremes([&](const Tensor& x, const Tensor& y) { return soft_margin_loss(x, y, each); },
                  {1e300, -1e300, 0}, {1, 1, 1}, {0, 1e300, std::log(2.0)}, {0, -1, -0.5});
  expect_extremes(
      [&](const Tensor& x, const Tensor& y) { return huber_loss(x, y, {.reduction = each}); },
      {1e300, -unbounded}, {0, 0}, {1e300, unbounded}, {1, -1});
  // Counts of 0 and 1 have no Stirling term.
  const auto poisson = [&](const Tensor& x, const Tensor& y) {
    return poisson_nll_loss(x, y, {.full = true, .reduction = each});
  };
  expect_extremes(poisson, {0, 0}, {0, 1}, {1, 1}, {1, 0});
  const Tensor count = leaf({0, 1});
  sum(poisson(Tensor(zeros({2}, {.dtype = f64})), count)).backward();
  EXPECT_TRUE(all_close(count.grad(), zeros({2}, {.dtype = f64}), 0));
}

TEST(ComposedLossAtExtremes, ImpossibleClassesOfProbabilityZero) {
  const Tensor logits = tensor<double>({1, -unbounded, 1}, {1, 3}).requires_grad_();
  const Tensor loss = cross_entropy(logits, tensor<double>({0.5, 0, 0.5}, {1, 3}));
  loss.backward();
  EXPECT_DOUBLE_EQ(loss.item(), std::log(2.0));
  EXPECT_TRUE(all_close(logits.grad(), zeros({1, 3}, {.dtype = f64}), 1e-15));
}

TEST(ComposedLossAtExtremes, VarianceBelowItsBoundKeepsItsGradient) {
  const Tensor var = leaf({0});
  gaussian_nll_loss(leaf({1}), leaf({0}), var, {.eps = 0.5}).backward();
  EXPECT_DOUBLE_EQ(var.grad().item(), 0.5 * (1 / 0.5 - 1 / 0.25));
}

TEST(ComposedLoss, Errors) {
  const Tensor x = zeros({2, 3}), y = zeros({2}), labels = zeros({2}, {.dtype = i64});
  EXPECT_ERROR(cross_entropy(x, zeros({2, 2})), DTypeError,
               "expected i64 class indices, or probabilities of the input's shape [2, 3]");
  EXPECT_ERROR(cross_entropy(x, x, {.ignore_index = 1}), Error,
               "cross_entropy: ignore_index needs a target of class indices");
  EXPECT_ERROR(cross_entropy(x, x, {.weight = y}), ShapeError, "weight [2] does not fit the 3");
  EXPECT_ERROR(bce_with_logits(x, x, {.weight = y}), ShapeError, "[2]");
  EXPECT_ERROR(bce_with_logits(x, x, {.weight = zeros({4, 2, 3})}), ShapeError,
               "bce_with_logits: weight [4, 2, 3] does not fit [2, 3]");
  EXPECT_ERROR(binary_cross_entropy(x + 1.5, x), Error, "is not a probability in [0, 1]");
  EXPECT_ERROR(binary_cross_entropy(zeros_like(x), full_like(x, 2)), Error,
               "a target is not a probability in [0, 1]");
  EXPECT_ERROR(binary_cross_entropy(x, y), ShapeError, "differ in shape");
  EXPECT_ERROR(huber_loss(x, x, {.delta = 0}), Error, "huber_loss: delta 0 is not positive");
  EXPECT_ERROR(gaussian_nll_loss(x, x, zeros({3})), ShapeError,
               "gaussian_nll_loss: var [3] does not fit input [2, 3]");
  EXPECT_ERROR(gaussian_nll_loss(x, x, x - 1), Error, "var has a negative element");
  EXPECT_ERROR(margin_ranking_loss(x, x, y), ShapeError, "differ in shape");
  EXPECT_ERROR(cosine_embedding_loss(x, x, x), ShapeError, "are not (N, D) and (N)");
  EXPECT_ERROR(multi_margin_loss(x, labels + 3), ShapeError,
               "multi_margin_loss: target 3 is not one of the 3 classes");
  EXPECT_ERROR(multi_margin_loss(x, labels, {.p = 3}), Error, "p is 3, not 1 or 2");
  EXPECT_ERROR(multilabel_margin_loss(x, labels), ShapeError, "differ in shape");
  EXPECT_ERROR(multilabel_margin_loss(x, to(x + 5, i64)), ShapeError, "target 5 is not one of");
  EXPECT_ERROR(triplet_margin_loss(x, y, x), ShapeError, "differ in shape");
}

}  // namespace
}  // namespace rondo::test
