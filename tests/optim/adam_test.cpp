// Adam and AdamW against PyTorch's trajectories, their state, and their errors.

#include "optim/adam.h"

#include "optim/one_cycle.h"
#include "optim/trajectory.h"

namespace rondo {
namespace {

using optim::Adam;
using optim::AdamOptions;
using optim::AdamW;
using optim::AdamWOptions;

test::MakeOptimizer adam(AdamOptions options) {
  return [=](const Tensors& params) { return std::make_unique<Adam>(params, options); };
}
test::MakeOptimizer adamw(AdamWOptions options) {
  return [=](const Tensors& params) { return std::make_unique<AdamW>(params, options); };
}

TEST(Adam, FollowsPyTorch) {
  test::expect_trajectory("adam", adam({}));
  test::expect_trajectory("adam.fast", adam({.lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-4}));
  test::expect_trajectory("adam.decay", adam({.lr = 0.01, .weight_decay = 0.1}));
  test::expect_trajectory("adam.amsgrad", adam({.lr = 0.01, .betas = {0.9, 0.9}, .amsgrad = true}));
  test::expect_trajectory("adam.maximize",
                          adam({.lr = 0.01, .weight_decay = 0.01, .maximize = true}));
}

TEST(AdamW, FollowsPyTorch) {
  test::expect_trajectory("adamw", adamw({}));
  test::expect_trajectory("adamw.decay", adamw({.lr = 0.01, .weight_decay = 0.3}));
  test::expect_trajectory("adamw.decay.f64", adamw({.lr = 0.01, .weight_decay = 0.3}), 1e-13, f64);
  test::expect_trajectory("adamw.amsgrad",
                          adamw({.lr = 0.01, .betas = {0.9, 0.9}, .amsgrad = true}));
  test::expect_trajectory("adamw.maximize", adamw({.lr = 0.01, .maximize = true}));
}

TEST(AdamW, GroupsHaveTheirOwnOptions) {
  test::expect_trajectory("adamw.groups", [](const Tensors& p) {
    return std::make_unique<AdamW>(std::vector<optim::ParamGroup<AdamWOptions>>{
        {{p[0]}, {.lr = 0.02}}, {{p[1], p[2]}, {.lr = 0.01, .weight_decay = 0.2}}});
  });
}

TEST(AdamW, FollowsPyTorchUnderOneCycle) {
  test::expect_trajectory("adamw.onecycle", adamw({.lr = 0.1}), 1e-5, f32, [](optim::Optimizer& o) {
    return std::make_unique<optim::OneCycleLR>(
        o, optim::OneCycleLROptions{.max_lr = 0.03, .total_steps = 200});
  });
}

TEST(Adam, GoesOnFromItsState) {
  test::expect_resumable(adam({.lr = 0.01, .weight_decay = 0.1}));
  test::expect_resumable(adamw({.lr = 0.01, .amsgrad = true}));
}

TEST(Adam, CountsTheStepsOfEachParameter) {
  Tensors params = test::hashed_parameters();
  Adam optimizer(params);
  for (std::uint32_t step = 1; step <= 10; ++step) {
    test::set_hashed_gradients(params, step);
    optimizer.step();
  }
  std::map<std::string, double> steps;
  for (const auto& [name, tensor] : optimizer.state_dict().tensors) {
    if (name.ends_with(".step")) {
      EXPECT_EQ(tensor.dtype(), f64);
      steps[name] = tensor.item<double>();
    }
  }
  EXPECT_EQ(steps, (std::map<std::string, double>{{"0.step", 10}, {"1.step", 8}, {"2.step", 10}}));
}

TEST(Adam, StartsAnewFromAStateWithoutTensors) {
  Tensors p = test::hashed_parameters(), q = test::hashed_parameters();
  Adam used(p), fresh(q);
  auto empty = fresh.state_dict();
  for (std::uint32_t step = 1; step <= 5; ++step) {
    test::set_hashed_gradients(p, step);
    used.step();
  }
  used.load_state_dict(empty);
  for (std::size_t k = 0; k < p.size(); ++k) p[k].set_data(q[k].detach().clone());
  for (std::uint32_t step = 1; step <= 5; ++step) {
    test::set_hashed_gradients(p, step);
    test::set_hashed_gradients(q, step);
    used.step();
    fresh.step();
  }
  EXPECT_EQ(test::flattened(p), test::flattened(q));
}

TEST(Adam, RefusesOptionsThatMakeNoSense) {
  Tensors p = test::hashed_parameters();
  EXPECT_THROW(Adam(p, {.lr = -1}), Error);
  EXPECT_THROW(Adam(p, {.eps = -1}), Error);
  EXPECT_THROW(Adam(p, {.weight_decay = -1}), Error);
  EXPECT_THROW(AdamW(p, {.betas = {-0.1, 0.9}}), Error);
  try {
    AdamW optimizer(p, {.betas = {0.9, 1.0}});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "AdamW: betas[1] is 1, but must be in [0, 1)");
  }
}

}  // namespace
}  // namespace rondo
