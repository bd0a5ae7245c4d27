// CyclicLR and CosineAnnealingWarmRestarts: rates and momenta against PyTorch's; state; errors.

#include "optim/cyclic.h"

#include <cmath>
#include <memory>

#include "optim/adam.h"
#include "optim/adaptive.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/hashed.h"

namespace rondo {
namespace {

using namespace optim;
using MakeSchedule = std::function<std::shared_ptr<LRSchedule>(Optimizer&)>;

MakeSchedule cyclic(const CyclicLROptions& options) {
  return [=](Optimizer& o) { return std::make_shared<CyclicLR>(o, options); };
}
MakeSchedule restarts(const CosineAnnealingWarmRestartsOptions& options) {
  return [=](Optimizer& o) { return std::make_shared<CosineAnnealingWarmRestarts>(o, options); };
}

std::unique_ptr<SGD> two_groups() {
  Tensors p = test::hashed_parameters();
  return std::make_unique<SGD>(std::vector<ParamGroup<SgdOptions>>{
      {{p[0]}, {.lr = 0.4, .momentum = 0.9}}, {{p[1], p[2]}, {.lr = 0.1, .momentum = 0.9}}});
}

/// Rates and, if PyTorch's are stored, momenta; and the same with a resume in the middle.
void expect_cycles(const std::string& name, const MakeSchedule& make) {
  test::Golden golden("optim.txt");
  const Tensor lr = golden["lr." + name];
  const auto lrs = lr.to_vector<double>();
  std::vector<double> momenta;
  if (golden.has("momentum." + name)) momenta = golden["momentum." + name].to_vector<double>();
  auto optimizer = two_groups();
  auto schedule = make(*optimizer);
  for (std::size_t step = 0; step <= 200; ++step) {
    for (std::size_t g = 0; g < lrs.size() / 201; ++g) {
      const double want = lrs[g * 201 + step];
      EXPECT_NEAR(optimizer->lr(g), want, 1e-12 * std::abs(want) + 1e-15) << name << ' ' << step;
      if (!momenta.empty()) {
        EXPECT_NEAR(optimizer->momentum(g), momenta[g * 201 + step], 1e-12) << name << ' ' << step;
      }
    }
    if (step < 200) schedule->step();
    if (step == 77) {
      auto resumed = two_groups();
      auto other = make(*resumed);
      resumed->load_state_dict(optimizer->state_dict());
      other->load_state_dict(schedule->state_dict());
      EXPECT_EQ(other->state_dict(), schedule->state_dict()) << name;
      optimizer = std::move(resumed);
      schedule = other;
    }
  }
}

TEST(CyclicLR, FollowsPyTorch) {
  expect_cycles("cyclic", cyclic({.base_lr = 0.01, .max_lr = 0.3, .step_size_up = 20}));
  expect_cycles("cyclic.triangular2", cyclic({.base_lr = 0.01,
                                              .max_lr = 0.3,
                                              .step_size_up = 20,
                                              .step_size_down = 7,
                                              .mode = CyclicMode::triangular2,
                                              .cycle_momentum = false}));
  expect_cycles("cyclic.exp_range", cyclic({.base_lr = 0.01,
                                            .max_lr = 0.3,
                                            .step_size_up = 5,
                                            .step_size_down = 31,
                                            .mode = CyclicMode::exp_range,
                                            .gamma = 0.99,
                                            .base_momentum = 0.5}));
  expect_cycles("cyclic.groups", cyclic({.base_lr = std::vector{0.01, 0.02},
                                         .max_lr = std::vector{0.3, 0.1},
                                         .step_size_up = 13,
                                         .base_momentum = std::vector{0.7, 0.8},
                                         .max_momentum = std::vector{0.9, 0.95}}));
  expect_cycles("cyclic.scaled", cyclic({.base_lr = 0.01,
                                         .max_lr = 0.3,
                                         .step_size_up = 20,
                                         .scale_fn = [](double x) { return 1 / (1 + x); },
                                         .scale_mode = ScaleMode::iterations}));
}

TEST(CyclicLR, FollowsAnotherSchedule) {
  expect_cycles("sequential.cyclic", [](Optimizer& o) {
    return std::make_shared<SequentialLR>(
        std::vector<std::shared_ptr<LRSchedule>>{
            std::make_shared<StepLR>(o, StepLROptions{.step_size = 10}),
            cyclic({.base_lr = 0.01, .max_lr = 0.3, .step_size_up = 20})(o)},
        std::vector<std::int64_t>{25});
  });
}

TEST(CyclicLR, CyclesTheFirstBetaOfAdam) {
  AdamW optimizer(test::hashed_parameters());
  CyclicLR schedule(optimizer, {.base_lr = 0.1, .max_lr = 0.3, .step_size_up = 2});
  EXPECT_DOUBLE_EQ(optimizer.momentum(), 0.9);
  for (int i = 0; i < 2; ++i) schedule.step();
  EXPECT_DOUBLE_EQ(optimizer.momentum(), 0.8);
  EXPECT_DOUBLE_EQ(optimizer.lr(), 0.3);
}

TEST(CyclicLR, RefusesSettingsThatMakeNoSense) {
  SGD o(test::hashed_parameters());
  EXPECT_ERROR(CyclicLR(o, {.base_lr = 0, .max_lr = 1, .step_size_up = 0}), Error,
               "CyclicLR: step_size_up and step_size_down are 0 and 0, but must be at least 1");
  EXPECT_ERROR(CyclicLR(o, {.base_lr = std::vector{0.0, 1.0}, .max_lr = 1}), Error,
               "CyclicLR: base_lr has 2 values, the optimizer 1 groups");
  Adagrad adagrad(test::hashed_parameters());
  EXPECT_ERROR(CyclicLR(adagrad, {.base_lr = 0, .max_lr = 1}), Error,
               "need cycle_momentum = false");
  CyclicLR schedule(o, {.base_lr = 0, .max_lr = 1, .cycle_momentum = false});
  ScheduleState state = schedule.state_dict();
  state.values["mode"] = {3};
  EXPECT_ERROR(schedule.load_state_dict(state), Error, "mode is 3, but must be below 3");
}

TEST(CosineAnnealingWarmRestarts, FollowsPyTorch) {
  expect_cycles("restarts", restarts({.t_0 = 30}));
  expect_cycles("restarts.longer", restarts({.t_0 = 9, .t_mult = 3, .eta_min = 0.01}));
  expect_cycles("sequential.constant", [](Optimizer& o) {
    return std::make_shared<SequentialLR>(
        std::vector<std::shared_ptr<LRSchedule>>{
            std::make_shared<ConstantLR>(o, ConstantLROptions{.total_iters = 10}),
            restarts({.t_0 = 20, .t_mult = 2})(o),
            std::make_shared<PolynomialLR>(o, PolynomialLROptions{.total_iters = 40})},
        std::vector<std::int64_t>{15, 100});
  });
}

TEST(CosineAnnealingWarmRestarts, GoesToFractionsOfEpochs) {
  for (const std::int64_t longer : {1, 3}) {
    SGD optimizer(test::hashed_parameters(), {.lr = 0.4});
    CosineAnnealingWarmRestarts schedule(optimizer, {.t_0 = 5, .t_mult = longer, .eta_min = 0.01});
    const auto want = test::Golden("optim.txt")["lr.restarts.fractions" + std::to_string(longer)]
                          .to_vector<double>();
    for (int step = 0; step < 100; ++step) {
      if (step % 10 == 9) {
        schedule.step();
      } else {
        schedule.step(step * 0.37);
      }
      EXPECT_NEAR(optimizer.lr(), want.at(static_cast<std::size_t>(step)), 1e-12) << step;
    }
  }
}

TEST(CosineAnnealingWarmRestarts, RefusesSettingsThatMakeNoSense) {
  SGD o(test::hashed_parameters());
  EXPECT_ERROR(CosineAnnealingWarmRestarts(o, {.t_0 = 0}), Error, "must be at least 1");
  EXPECT_ERROR(CosineAnnealingWarmRestarts(o, {.t_0 = 5, .t_mult = 0}), Error,
               "t_0 and t_mult are 5 and 0, but must be at least 1");
  CosineAnnealingWarmRestarts schedule(o, {.t_0 = 5});
  EXPECT_ERROR(schedule.step(-1), Error, "epoch is -1, but must be at least 0");
  ScheduleState state = schedule.state_dict();
  state.values["t_cur"] = {7};
  EXPECT_ERROR(schedule.load_state_dict(state), Error, "t_cur is 7");
}

}  // namespace
}  // namespace rondo
