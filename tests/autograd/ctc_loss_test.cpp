// ctc_loss against PyTorch (tests/golden/make_losses.py), for impossible targets, and its errors.

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "nn/losses.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

Tensor integers(std::initializer_list<std::int64_t> values) { return tensor(values); }

TEST(CtcLoss, AgreesWithPyTorch) {
  const Golden golden("losses.txt");
  const auto check = [&](const std::string& name, const auto& f) {
    expect_case(
        golden, "ctc_loss." + name,
        [&](const Tensors& x) -> Tensor { return f(log_softmax(x[0], 2)); }, 24, 16);
  };
  const Tensor padded = tensor<std::int64_t>({1, 1, 3, 2, 9, 9, 9, 9, 9}, {3, 3}),
               steps = integers({6, 4, 3}), labels = integers({3, 1, 0});
  const auto with = [&](Reduction reduction) {
    return [&, reduction](const Tensor& x) {
      return nn::CTCLoss({.reduction = reduction})(x, padded, steps, labels);
    };
  };
  check("none", with(Reduction::none));
  check("mean", with(Reduction::mean));
  check("sum", with(Reduction::sum));
  check("joined", [](const Tensor& x) {
    return ctc_loss(x, integers({0, 1, 3, 0, 0, 1}), integers({5, 6, 4}), integers({2, 3, 1}),
                    {.blank = 2});
  });
  check("unreachable", [](const Tensor& x) {
    return ctc_loss(x, integers({1, 1, 1, 2}), integers({4, 0, 0}), integers({3, 1, 0}),
                    {.reduction = Reduction::none, .zero_infinity = true});
  });
  check("one", [](const Tensor& x) {
    return ctc_loss(select(x, 1, 0), integers({3, 1}), scalar(5, {.dtype = i64}),
                    scalar(2, {.dtype = i64}), {.reduction = Reduction::none});
  });
}

TEST(CtcLoss, UnreachableTargetsAndImpossibleClasses) {
  const Tensor x = zeros({2, 1, 3}).requires_grad_();
  const Tensor loss = ctc_loss(x, integers({1, 1}), integers({2}), integers({2}));
  EXPECT_TRUE(std::isinf(loss.item()));
  loss.backward();
  EXPECT_TRUE(identical(x.grad(), zeros({2, 1, 3})));
  // Class 2 has the probability 0; it does not disturb the others.
  const float never = -INFINITY;
  const Tensor y = tensor<float>({-1, -2, never, -3, -1, never}, {2, 1, 3}).requires_grad_();
  const Tensor possible = ctc_loss(y, integers({1}), integers({2}), integers({1}));
  // The alignments: blank 1, 1 blank, 1 1.
  EXPECT_NEAR(possible.item(), -std::log(std::exp(-2) + std::exp(-5) + std::exp(-3)), 1e-5);
  possible.backward();
  EXPECT_TRUE(all(isfinite(y.grad())).item<bool>());
  EXPECT_TRUE(std::isinf(ctc_loss(y, integers({2}), integers({2}), integers({1})).item()));
}

TEST(CtcLoss, TakesIntegersOf32Bits) {
  const Tensor x = log_softmax(randn({4, 2, 3}), 2), targets = integers({1, 2, 1}),
               steps = integers({4, 3}), labels = integers({2, 1});
  EXPECT_TRUE(test::identical(ctc_loss(x, targets, steps, labels),
                              ctc_loss(x, targets.to(i32), steps.to(i32), labels.to(i32))));
}

TEST(CtcLoss, Errors) {
  const Tensor x = zeros({4, 2, 3}), targets = tensor<std::int64_t>({1, 2, 1, 1}, {2, 2}),
               steps = integers({4, 4}), labels = integers({2, 1});
  EXPECT_ERROR(ctc_loss(zeros({4}), targets, steps, labels), ShapeError, "is not (T, N, C)");
  EXPECT_ERROR(ctc_loss(x, targets, integers({5, 4}), labels), ShapeError,
               "ctc_loss: input_lengths contain 5, which is not in 0 … 4");
  EXPECT_ERROR(ctc_loss(x, targets, integers({4}), labels), ShapeError,
               "ctc_loss: input_lengths have the shape [1], not [2]");
  EXPECT_ERROR(ctc_loss(x, targets, steps, zeros({2})), DTypeError,
               "ctc_loss: target_lengths are f32, not i64");
  EXPECT_ERROR(ctc_loss(x, targets, steps, integers({3, 1})), ShapeError,
               "ctc_loss: targets [2, 2] are neither (2, 3 or more) nor (4)");
  EXPECT_ERROR(ctc_loss(x, integers({1, 2}), steps, labels), ShapeError, "nor (3)");
  EXPECT_ERROR(ctc_loss(x, integers({1, 3, 1}), steps, labels), ShapeError,
               "ctc_loss: target 3 is not one of the 3 classes");
  EXPECT_ERROR(ctc_loss(x, zeros_like(targets), steps, labels), Error,
               "ctc_loss: target 0 is the blank, not a label");
  EXPECT_ERROR(ctc_loss(x, targets, steps, labels, {.blank = 3}), ShapeError,
               "ctc_loss: blank 3 is not one of the 3 classes");
  EXPECT_ERROR(ctc_loss(x, zeros({2, 2}), steps, labels), DTypeError, "the targets are f32");
}

}  // namespace
}  // namespace rondo::test
