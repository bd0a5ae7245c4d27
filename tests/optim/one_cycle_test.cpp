// OneCycleLR: rates and momenta against PyTorch's, alone, by group and after another schedule.

#include "optim/one_cycle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "optim/adam.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/hashed.h"

namespace rondo {
namespace {

using namespace optim;

/// `make` attaches a schedule to an optimizer with two groups. Its rates and momenta must equal the
/// golden `name`.
void expect_rates(const std::string& name,
                  const std::function<std::shared_ptr<LRSchedule>(Optimizer&)>& make) {
  test::Golden golden("optim.txt");
  Tensors p = test::hashed_parameters();
  SGD optimizer(
      {{{p[0]}, {.lr = 0.4, .momentum = 0.9}}, {{p[1], p[2]}, {.lr = 0.1, .momentum = 0.9}}});
  auto schedule = make(optimizer);
  Tensor lr = golden["lr." + name], momentum = golden["momentum." + name];
  auto lrs = lr.to_vector<double>(), momenta = momentum.to_vector<double>();
  for (std::size_t step = 0; step <= 200; ++step) {
    for (std::size_t g = 0; g < static_cast<std::size_t>(lr.size(0)); ++g) {
      double want = lrs[g * 201 + step];
      EXPECT_NEAR(optimizer.lr(g), want, 1e-12 * std::abs(want)) << name << " step " << step;
      EXPECT_NEAR(optimizer.momentum(g), momenta[g * 201 + step], 1e-12)
          << name << " step " << step;
    }
    if (step < 200) schedule->step();
  }
}

void expect_rates(const std::string& name, const OneCycleLROptions& options) {
  expect_rates(name, [&](Optimizer& o) { return std::make_shared<OneCycleLR>(o, options); });
}

TEST(OneCycleLR, FollowsPyTorch) {
  expect_rates("onecycle", {.max_lr = 0.3, .total_steps = 200});
  expect_rates("onecycle", {.max_lr = 0.3, .epochs = 10, .steps_per_epoch = 20});
  expect_rates(
      "onecycle.linear",
      {.max_lr = 0.3, .total_steps = 200, .pct_start = 0.25, .anneal_strategy = Anneal::linear});
  expect_rates("onecycle.three",
               {.max_lr = 0.3, .total_steps = 200, .final_div_factor = 100, .three_phase = true});
  expect_rates("onecycle.groups", {.max_lr = std::vector{0.3, 0.1},
                                   .total_steps = 200,
                                   .base_momentum = std::vector{0.8, 0.7},
                                   .max_momentum = std::vector{0.9, 0.95},
                                   .div_factor = 10});
  expect_rates("onecycle.fixed",
               {.max_lr = 0.3, .total_steps = 200, .pct_start = 0, .cycle_momentum = false});
}

TEST(OneCycleLR, FollowsAnotherSchedule) {
  expect_rates("sequential.onecycle", [](Optimizer& o) {
    return std::make_shared<SequentialLR>(
        std::vector<std::shared_ptr<LRSchedule>>{
            std::make_shared<StepLR>(o, StepLROptions{.step_size = 10}),
            std::make_shared<OneCycleLR>(o, OneCycleLROptions{.max_lr = 0.3, .total_steps = 200})},
        std::vector<std::int64_t>{25});
  });
}

TEST(OneCycleLR, CyclesTheFirstBetaOfAdam) {
  AdamW optimizer(test::hashed_parameters(), {.betas = {0.5, 0.99}});
  OneCycleLR schedule(optimizer, {.max_lr = 0.3, .total_steps = 10});
  EXPECT_EQ(optimizer.momentum(), 0.95);
  for (int i = 0; i < 2; ++i) schedule.step();  // the peak: 0.3 * 10 - 1
  EXPECT_DOUBLE_EQ(optimizer.momentum(), 0.85);
  EXPECT_DOUBLE_EQ(optimizer.lr(), 0.3);
}

TEST(OneCycleLR, EndsWithAnError) {
  SGD optimizer(test::hashed_parameters(), {.lr = 0.1});
  OneCycleLR schedule(optimizer, {.max_lr = 0.3, .total_steps = 3});
  for (int i = 0; i < 3; ++i) schedule.step();
  double last = optimizer.lr();
  try {
    schedule.step();
    FAIL() << "stepped beyond the end";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "OneCycleLR: step 4 exceeds total_steps = 3");
  }
  EXPECT_EQ(optimizer.lr(), last);
  EXPECT_EQ(schedule.last_step(), 3);
}

TEST(OneCycleLR, GoesOnFromItsState) {
  Tensors p = test::hashed_parameters(), q = test::hashed_parameters();
  SGD first(p, {.lr = 0.1}), second(q, {.lr = 0.1});
  OneCycleLR a(first, {.max_lr = 0.3, .total_steps = 50, .anneal_strategy = Anneal::linear});
  OneCycleLR b(second, {.max_lr = 0.1, .total_steps = 40});
  for (int i = 0; i < 20; ++i) a.step();
  second.load_state_dict(first.state_dict());
  b.load_state_dict(a.state_dict());
  for (int i = 0; i < 30; ++i) {
    a.step();
    b.step();
    ASSERT_EQ(first.lr(), second.lr());
    ASSERT_EQ(first.momentum(), second.momentum());
  }
}

TEST(OneCycleLR, RefusesSettingsThatMakeNoSense) {
  SGD o(test::hashed_parameters(), {.lr = 0.1});
  EXPECT_THROW(OneCycleLR(o, {.max_lr = 1, .total_steps = 0}), Error);
  EXPECT_ERROR(OneCycleLR(o, {.max_lr = 1, .epochs = -2, .steps_per_epoch = -3}), Error,
               "OneCycleLR: epochs -2 and steps_per_epoch -3 must not be negative");
  EXPECT_THROW(OneCycleLR(o, {.max_lr = 1, .total_steps = 9, .pct_start = 1.5}), Error);
  EXPECT_THROW(OneCycleLR(o, {.max_lr = 1, .total_steps = 9, .div_factor = 0}), Error);
  EXPECT_THROW(OneCycleLR(o, {.max_lr = std::vector{1.0, 2.0}, .total_steps = 9}), Error);
  EXPECT_THROW(OneCycleLR(o, {.max_lr = -1, .total_steps = 9}), Error);
  OneCycleLR one_step(o, {.max_lr = 1, .total_steps = 1});  // no phase has any steps
  EXPECT_TRUE(std::isfinite(o.lr()));
}

}  // namespace
}  // namespace rondo
