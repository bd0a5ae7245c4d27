// Losses against PyTorch with all their options, at saturation, and their errors.

#include "autograd/ops/loss.h"

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
const std::pair<const char*, Reduction> reductions[] = {
    {"none", Reduction::none}, {"mean", Reduction::mean}, {"sum", Reduction::sum}};

TEST(Loss, CrossEntropyWithAllItsOptions) {
  for (std::string shape : {"rows", "planes"}) {
    for (int smoothing : {0, 1}) {
      for (int ignoring : {0, 1}) {
        for (int weighted : {0, 1}) {
          for (auto [name, reduction] : reductions) {
            CrossEntropyOptions options{.reduction = reduction,
                                        .label_smoothing = smoothing / 10.0};
            if (weighted) options.weight = tensor<float>({0.5f, 1, 2, 0.25f});
            std::string id = concat(shape, ".", smoothing, ".", ignoring, ".", weighted, ".", name);
            expect_golden(
                "cross_entropy." + id, [&](X x) { return cross_entropy(x[0], x[1], options); }, 16);
            if (smoothing == 0) {
              expect_golden(
                  "nll_loss." + id, [&](X x) { return nll_loss(x[0], x[1], options); }, 16);
            }
          }
        }
      }
    }
  }
}

TEST(Loss, CrossEntropyAtTheEdges) {
  expect_golden("cross_entropy.all_ignored",
                [](X x) { return cross_entropy(x[0], x[1], {.ignore_index = 1}); });
  expect_golden(
      "cross_entropy.far", [](X x) { return cross_entropy(x[0], x[1]); }, 3);
  Tensor none = zeros({0, 3}), no_targets = zeros({0}, {.dtype = i64});
  EXPECT_TRUE(std::isnan(cross_entropy(none, no_targets).item()));
  EXPECT_EQ(cross_entropy(none, no_targets, {.reduction = Reduction::sum}).item(), 0);
}

TEST(Loss, CrossEntropyKeepsSmallDifferencesOfLargeLogits) {
  // log(1 + exp(-d)) for logits that differ by d, however far from 0 they are.
  for (double d : {0.5, 0.015625, 3.0}) {
    Tensor near = tensor<float>({0, static_cast<float>(d)}, {1, 2}).requires_grad_();
    Tensor far = (near.detach() + 8192).requires_grad_();
    for (Tensor logits : {near, far}) {
      Tensor loss = cross_entropy(logits, tensor<std::int64_t>({1}));
      loss.backward();
      EXPECT_NEAR(loss.item(), std::log1p(std::exp(-d)), 1e-6);
      EXPECT_NEAR(logits.grad()[0][0].item(), 1 / (1 + std::exp(d)), 1e-6);
    }
  }
}

TEST(Loss, CrossEntropyOfClassesThatAreImpossible) {
  const float never = -INFINITY;
  Tensor logits = tensor<float>({1, never, 2}, {1, 3}).requires_grad_();
  Tensor loss = cross_entropy(logits, tensor<std::int64_t>({0}));
  loss.backward();
  EXPECT_NEAR(loss.item(), std::log1p(std::exp(1.0)), 1e-6);
  EXPECT_EQ(logits.grad()[0][1].item(), 0);
  EXPECT_TRUE(std::isinf(
      cross_entropy(logits, tensor<std::int64_t>({0}), {.label_smoothing = 0.1}).item()));
  EXPECT_TRUE(std::isnan(
      cross_entropy(tensor<float>({NAN, 1, 2}, {1, 3}), tensor<std::int64_t>({1})).item()));
}

TEST(Loss, CrossEntropyIgnoresALineWhateverItHolds) {
  Tensor logits = tensor<float>({INFINITY, 1, 2, 0, 1, 2}, {2, 3}).requires_grad_();
  Tensor target = tensor<std::int64_t>({-100, 1});
  for (bool twice : {false, true}) {
    Tensor dx = grad({cross_entropy(logits, target)}, {logits}, {.create_graph = twice})[0];
    EXPECT_EQ(dx[0].abs().sum().item(), 0) << twice;
    EXPECT_GT(dx[1].abs().sum().item(), 0.1) << twice;
  }
}

TEST(Loss, CrossEntropyOfManyDimensions) {
  const Tensor logits = randn({2, 3, 1, 2, 1, 1, 2, 1}),
               rows = logits.permute({0, 2, 3, 4, 5, 6, 7, 1});
  const Tensor target = randint(0, 3, {2, 1, 2, 1, 1, 2, 1}, {.dtype = i64});
  for (double smoothing : {0.0, 0.2}) {
    EXPECT_NEAR(
        cross_entropy(logits, target, {.label_smoothing = smoothing}).item(),
        cross_entropy(rows.reshape({8, 3}), target.reshape({8}), {.label_smoothing = smoothing})
            .item(),
        1e-6);
  }
}

TEST(Loss, CrossEntropyReadsStridedLogitsAndTargets) {
  Tensor logits = randn({4, 6}), targets = tensor<std::int64_t>({3, 9, 0, 9, 1, 9, 2, 9});
  Tensor expected = cross_entropy(transpose(logits, 0, 1).contiguous().narrow(0, 0, 4),
                                  tensor<std::int64_t>({3, 0, 1, 2}));
  Tensor every_second = targets.as_view({4}, {2}, 0);
  EXPECT_TRUE(all_close(cross_entropy(transpose(logits, 0, 1).narrow(0, 0, 4), every_second),
                        expected, tolerance(f32, 4, 4)));
}

TEST(Loss, DifferencesOfTwoTensors) {
  for (auto [name, reduction] : reductions) {
    auto r = reduction;
    std::string tag = std::string(".") + name;
    expect_golden(
        "mse_loss" + tag, [r](X x) { return mse_loss(x[0], x[1], r); }, 12);
    expect_golden(
        "l1_loss" + tag, [r](X x) { return l1_loss(x[0], x[1], r); }, 12);
    for (double beta : {1.0, 0.25, 0.0}) {
      expect_golden(
          concat("smooth_l1_loss.", static_cast<int>(beta * 100), tag),
          [=](X x) { return smooth_l1_loss(x[0], x[1], beta, r); }, 12);
    }
    expect_golden(
        "bce_with_logits" + tag, [r](X x) { return bce_with_logits(x[0], x[1], r); }, 12);
    Tensor target = Golden("ops.txt")["kl_div.target"];
    expect_golden(
        "kl_div" + tag, [&](X x) { return kl_div(x[0], converted(target, x[0].dtype()), r); }, 12);
  }
}

TEST(Loss, OneCaseAlone) {
  Tensor scores = tensor<float>({1, 2, 3}).requires_grad_(), target = scalar(2, {.dtype = i64});
  for (auto [name, reduction] : reductions) {
    Tensor loss = cross_entropy(scores, target, {.reduction = reduction});
    EXPECT_EQ(loss.dim(), 0) << name;
    EXPECT_NEAR(loss.item(), 0.40760596, 1e-6) << name;
    EXPECT_EQ(nll_loss(scores, target, {.reduction = reduction}).item(), -3) << name;
  }
  cross_entropy(scores, target).backward();
  EXPECT_NEAR(scores.grad()[2].item(), 0.66524096 - 1, 1e-6);
  EXPECT_TRUE(std::isnan(cross_entropy(scores, scalar(-100, {.dtype = i64})).item()));
}

/// A mask of segmentation is bytes, of which 255 is not a class.
TEST(Loss, TargetsMayBeBytes) {
  const Tensor logits = randn({4, 3}), bytes = tensor<std::uint8_t>({0, 255, 2, 1});
  for (const auto loss : {cross_entropy, nll_loss})
    EXPECT_EQ(loss(logits, bytes, {.ignore_index = 255}).item(),
              loss(logits, bytes.to(i64), {.ignore_index = 255}).item());
}

TEST(Loss, Errors) {
  Tensor logits = zeros({2, 3});
  auto targets = [](std::initializer_list<std::int64_t> v) { return tensor<std::int64_t>(v); };
  EXPECT_ERROR(cross_entropy(logits, targets({0, 3})), ShapeError,
               "cross_entropy: target 3 at index 1 is not one of the 3 classes");
  EXPECT_ERROR(nll_loss(logits, targets({-1, 0})), ShapeError,
               "nll_loss: target -1 at index 0 is not one of the 3 classes");
  EXPECT_ERROR(cross_entropy(logits, targets({0})), ShapeError,
               "cross_entropy: input [2, 3] needs a target of shape [2], not [1]");
  EXPECT_ERROR(cross_entropy(zeros({3}), targets({0})), ShapeError, "input [3] is not (N, C, ...)");
  EXPECT_ERROR(cross_entropy(logits, zeros({2})), DTypeError,
               "the target is f32; expected i64 class indices");
  EXPECT_ERROR(cross_entropy(zeros({2, 3}, {.dtype = i64}), targets({0, 1})), DTypeError,
               "the input is i64, not a float");
  EXPECT_ERROR(cross_entropy(logits, targets({0, 1}), {.weight = ones({2})}), ShapeError,
               "weight [2] does not fit the 3 classes");
  EXPECT_ERROR(cross_entropy(logits, targets({0, 1}), {.label_smoothing = 1.5}), Error,
               "label_smoothing 1.5 is not in [0, 1]");
  EXPECT_ERROR(nll_loss(logits, targets({0, 1}), {.label_smoothing = 0.5}), Error,
               "label_smoothing must be 0; only cross_entropy supports it");
  EXPECT_ERROR(mse_loss(logits, zeros({3})), ShapeError,
               "mse_loss: input [2, 3] and target [3] differ in shape");
  EXPECT_ERROR(l1_loss(logits, zeros({2, 1})), ShapeError, "l1_loss: input [2, 3]");
  EXPECT_ERROR(bce_with_logits(logits, zeros({2, 1})), ShapeError, "bce_with_logits: input [2, 3]");
  EXPECT_ERROR(kl_div(logits, zeros({2, 1})), ShapeError, "kl_div: input [2, 3]");
  EXPECT_ERROR(kl_div(logits, zeros({3}), Reduction::mean, TargetScale::log_probabilities),
               ShapeError, "kl_div: input [2, 3] and target [3] differ in shape");
  EXPECT_ERROR(smooth_l1_loss(logits, logits, -1), Error, "smooth_l1_loss: beta -1 is negative");
  EXPECT_ERROR(mse_loss(zeros({2}, {.dtype = i64}), zeros({2})), DTypeError, "the input is i64");
}

// The square of 40,000 overflows in the branch that is not taken.
TEST(Loss, SmoothL1OfADifferenceWhoseSquareOverflows) {
  for (DType dtype : {f16, f32}) {
    const double size = dtype == f16 ? 40000 : 1e30;
    const Tensor x = tensor<double>({size, -0.5}).to(dtype).requires_grad_();
    const Tensor y = zeros({2}, {.dtype = dtype}).requires_grad_();
    smooth_l1_loss(x, y).backward();
    EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{0.5, -0.25})) << dtype;
    EXPECT_EQ(y.grad().to_vector(), (std::vector<float>{-0.5, 0.25})) << dtype;
  }
  EXPECT_EQ(smooth_l1_loss(tensor<float>({40000}).to(f16), zeros({1}, {.dtype = f16})).item(),
            40000);
}

// -log sigmoid(x) of an infinite logit is 0 if the answer is correct and inf if it is wrong.
TEST(Loss, BceWithLogitsOfInfinities) {
  const double inf = INFINITY;
  const Tensor x = leaf({inf, -inf, inf, -inf, inf, -inf});
  const Tensor y = tensor<double>({0, 1, 1, 0, 0.5, 0.5});
  const Tensor losses = bce_with_logits(x, y, Reduction::none);
  EXPECT_EQ(losses.to_vector<double>(), (std::vector<double>{inf, inf, 0, 0, inf, inf}));
  losses.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, -1, 0, 0, 0.5, -0.5}));
  EXPECT_TRUE(std::isnan(bce_with_logits(leaf({NAN}), tensor<double>({1})).item()));
}

TEST(SmoothL1, HasTheCommonDtype) {
  const Tensor x = ones({3}).to(bf16).requires_grad_(), y = zeros({3}).requires_grad_();
  const Tensor losses = smooth_l1_loss(x, y, 1, Reduction::none);
  EXPECT_EQ(losses.dtype(), f32);
  losses.sum().backward();
  EXPECT_EQ(x.grad().dtype(), bf16);
  EXPECT_EQ(y.grad().dtype(), f32);
}

/// bf16 has no 301.
TEST(SmoothL1, ATargetOfAnotherDtypeIsNotRounded) {
  const Tensor x = full({1}, 300.0).to(bf16);
  EXPECT_EQ(smooth_l1_loss(x, tensor<std::int64_t>({301})).item<double>(), 0.5);
  EXPECT_EQ(huber_loss(x, full({1}, 301.0), {.delta = 2}).item<double>(), 0.5);
}

}  // namespace
}  // namespace rondo::test
