// NAdam, RAdam and Adamax against PyTorch's trajectories, Lion against the paper's formula.

#include "optim/adam_family.h"

#include "optim/trajectory.h"
#include "support/errors.h"

namespace rondo {
namespace {

using optim::Adamax;
using optim::AdamaxOptions;
using optim::Lion;
using optim::LionOptions;
using optim::NAdam;
using optim::NAdamOptions;
using optim::RAdam;
using optim::RAdamOptions;

TEST(NAdam, FollowsPyTorch) {
  constexpr double of_mu_product = 1e-9;  // which is f32 in PyTorch
  test::expect_trajectory("nadam", [](const Tensors& p) { return std::make_unique<NAdam>(p); });
  test::expect_trajectory_in_both_precisions<NAdam>("nadam.decay",
                                                    NAdamOptions{.lr = 0.01,
                                                                 .betas = {0.8, 0.95},
                                                                 .eps = 1e-4,
                                                                 .weight_decay = 0.1,
                                                                 .momentum_decay = 0.02},
                                                    of_mu_product);
  test::expect_trajectory_in_both_precisions<NAdam>(
      "nadam.decoupled",
      NAdamOptions{
          .lr = 0.01, .weight_decay = 0.3, .decoupled_weight_decay = true, .maximize = true},
      of_mu_product);
}

TEST(RAdam, FollowsPyTorch) {
  test::expect_trajectory("radam", [](const Tensors& p) { return std::make_unique<RAdam>(p); });
  test::expect_trajectory_in_both_precisions<RAdam>(
      "radam.decay",
      RAdamOptions{.lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1});
  test::expect_trajectory_in_both_precisions<RAdam>(
      "radam.decoupled",
      RAdamOptions{
          .lr = 0.01, .weight_decay = 0.3, .decoupled_weight_decay = true, .maximize = true});
}

TEST(Adamax, FollowsPyTorch) {
  test::expect_trajectory("adamax", [](const Tensors& p) { return std::make_unique<Adamax>(p); });
  test::expect_trajectory_in_both_precisions<Adamax>(
      "adamax.decay",
      AdamaxOptions{
          .lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1, .maximize = true});
}

TEST(Lion, FollowsThePaper) {
  test::expect_trajectory("lion", [](const Tensors& p) { return std::make_unique<Lion>(p); });
  test::expect_trajectory_in_both_precisions<Lion>(
      "lion.decay",
      LionOptions{.lr = 0.003, .betas = {0.8, 0.95}, .weight_decay = 0.3, .maximize = true});
}

TEST(AdamFamily, RefusesOptionsThatMakeNoSense) {
  Tensors p = test::hashed_parameters();
  EXPECT_ERROR(NAdam(p, {.betas = {1, 0.9}}), Error, "NAdam: beta1 is 1, but must be in [0, 1)");
  EXPECT_ERROR(NAdam(p, {.momentum_decay = -1}), Error, "NAdam: momentum_decay is -1");
  EXPECT_ERROR(RAdam(p, {.betas = {0.9, -1}}), Error, "RAdam: beta2 is -1, but must be in [0, 1)");
  EXPECT_ERROR(Adamax(p, {.eps = -1}), Error, "Adamax: eps is -1");
  EXPECT_ERROR(Lion(p, {.lr = -1}), Error, "Lion: lr is -1");
}

}  // namespace
}  // namespace rondo
