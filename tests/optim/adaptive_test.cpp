// Adagrad, Adadelta and RMSprop against PyTorch's trajectories.

#include "optim/adaptive.h"

#include <cmath>

#include "optim/adam_family.h"
#include "optim/trajectory.h"
#include "support/errors.h"

namespace rondo {
namespace {

using optim::Adadelta;
using optim::AdadeltaOptions;
using optim::Adagrad;
using optim::AdagradOptions;
using optim::RMSprop;
using optim::RMSpropOptions;

TEST(Adagrad, FollowsPyTorch) {
  test::expect_trajectory("adagrad", [](const Tensors& p) { return std::make_unique<Adagrad>(p); });
  test::expect_trajectory_in_both_precisions<Adagrad>(
      "adagrad.decay", AdagradOptions{.lr = 0.05,
                                      .lr_decay = 0.01,
                                      .weight_decay = 0.1,
                                      .initial_accumulator_value = 0.3,
                                      .eps = 1e-6,
                                      .maximize = true});
}

TEST(Adadelta, FollowsPyTorch) {
  test::expect_trajectory("adadelta",
                          [](const Tensors& p) { return std::make_unique<Adadelta>(p); });
  test::expect_trajectory_in_both_precisions<Adadelta>(
      "adadelta.decay",
      AdadeltaOptions{.lr = 0.5, .rho = 0.8, .eps = 1e-4, .weight_decay = 0.1, .maximize = true});
}

TEST(RMSprop, FollowsPyTorch) {
  test::expect_trajectory("rmsprop", [](const Tensors& p) { return std::make_unique<RMSprop>(p); });
  test::expect_trajectory_in_both_precisions<RMSprop>(
      "rmsprop.momentum",
      RMSpropOptions{.lr = 0.003, .alpha = 0.9, .eps = 1e-4, .weight_decay = 0.1, .momentum = 0.8});
  test::expect_trajectory_in_both_precisions<RMSprop>(
      "rmsprop.centered",
      RMSpropOptions{
          .lr = 0.003, .alpha = 0.9, .momentum = 0.5, .centered = true, .maximize = true});
}

TEST(RMSprop, KeepsOnlyTheStateThatItsOptionsNeed) {
  const auto names = [](RMSpropOptions options) {
    Tensors p{test::hashed_tensor(0, 0, {3}).requires_grad_()};
    p[0].set_grad(test::hashed_tensor(0, 1, {3}));
    RMSprop optimizer(p, options), second(p, options);
    optimizer.step();
    second.load_state_dict(optimizer.state_dict());
    std::string all;
    for (const auto& [name, tensor] : second.state_dict().tensors) all += name + " ";
    return all;
  };
  EXPECT_EQ(names({}), "0.step 0.square_avg ");
  EXPECT_EQ(names({.momentum = 0.9}), "0.step 0.square_avg 0.momentum_buffer ");
  EXPECT_EQ(names({.centered = true}), "0.step 0.square_avg 0.grad_avg ");
}

/// The variance of a constant gradient is 0, and rounding must not make it negative.
TEST(RMSprop, CenteredTakesConstantGradients) {
  const Tensor p = zeros({40}).requires_grad_(), g = linspace(-2, 2, 40);
  RMSprop optimizer({p}, {.lr = 1e-12, .alpha = 0.9, .centered = true});
  for (int step = 0; step < 400; ++step) {
    p.set_grad(g);
    optimizer.step();
  }
  EXPECT_TRUE(std::isfinite(p.detach().sum().item()));
}

/// The square of 1e20 is infinite in f32, a hundredth of it is not; later steps are finite, too.
TEST(AdaptiveOptimizers, SurviveOneLargeGradient) {
  const auto after = [](const auto& make) {
    const Tensor p = ones({1}).requires_grad_();
    const auto optimizer = make(Tensors{p});
    for (int step = 0; step < 12; ++step) {
      p.set_grad(full({1}, step == 0 ? 1e20 : 1.0));
      optimizer->step();
    }
    return p.item<float>();
  };
  EXPECT_FLOAT_EQ(after([](Tensors p) { return std::make_unique<RMSprop>(p); }), 0.9F);
  EXPECT_FLOAT_EQ(after([](Tensors p) { return std::make_unique<Adadelta>(p); }), 1);
  EXPECT_TRUE(std::isfinite(after([](Tensors p) { return std::make_unique<optim::NAdam>(p); })));
  EXPECT_TRUE(std::isfinite(after([](Tensors p) { return std::make_unique<optim::RAdam>(p); })));
}

TEST(AdaptiveOptimizers, RefuseOptionsThatMakeNoSense) {
  Tensors p = test::hashed_parameters();
  EXPECT_ERROR(RMSprop(p, {.alpha = -1}), Error,
               "RMSprop: alpha is -1, but must be finite and not negative");
  EXPECT_ERROR(RMSprop(p, {.lr = -1}), Error, "RMSprop: lr is -1");
  EXPECT_ERROR(RMSprop(p, {.eps = -1}), Error, "RMSprop: eps is -1");
  EXPECT_ERROR(RMSprop(p, {.weight_decay = -1}), Error, "RMSprop: weight_decay is -1");
  EXPECT_ERROR(RMSprop(p, {.momentum = NAN}), Error, "RMSprop: momentum is nan");
  EXPECT_ERROR(Adagrad(p, {.lr_decay = -1}), Error, "Adagrad: lr_decay is -1");
  EXPECT_ERROR(Adagrad(p, {.initial_accumulator_value = -1}), Error,
               "Adagrad: initial_accumulator_value is -1");
  EXPECT_ERROR(Adadelta(p, {.rho = 1.5}), Error, "Adadelta: rho is 1.5, but must be in [0, 1]");
}

}  // namespace
}  // namespace rondo
