// ReduceLROnPlateau: rates against PyTorch's; state; errors.

#include "optim/plateau.h"

#include <memory>

#include "optim/sgd.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/hashed.h"

namespace rondo {
namespace {

using namespace optim;

std::unique_ptr<SGD> optimizer_of_two_groups() {
  Tensors p = test::hashed_parameters();
  return std::make_unique<SGD>(
      std::vector<ParamGroup<SgdOptions>>{{{p[0]}, {.lr = 0.4}}, {{p[1], p[2]}, {.lr = 0.1}}});
}

/// Also with a resume in the middle.
void expect_reductions(const std::string& name, const ReduceLROnPlateauOptions& options) {
  const auto want = test::Golden("optim.txt")["lr." + name].to_vector<double>();
  auto optimizer = optimizer_of_two_groups();
  auto schedule = std::make_unique<ReduceLROnPlateau>(*optimizer, options);
  for (std::uint32_t step = 0; step <= 200; ++step) {
    for (std::size_t g = 0; g < 2; ++g)
      EXPECT_NEAR(optimizer->lr(g), want.at(g * 201 + step), 1e-14) << name << ' ' << step;
    const double metric = 10.0 / (1 + step) + 0.2 * test::hashed(9, step, 0);
    schedule->step(options.mode == PlateauMode::max ? -metric : metric);
    if (step == 33) {
      auto resumed = optimizer_of_two_groups();
      auto other = std::make_unique<ReduceLROnPlateau>(*resumed);
      resumed->load_state_dict(optimizer->state_dict());
      other->load_state_dict(schedule->state_dict());
      optimizer = std::move(resumed);
      schedule = std::move(other);
    }
  }
  EXPECT_EQ(schedule->last_step(), 201);
}

TEST(ReduceLROnPlateau, FollowsPyTorch) {
  expect_reductions("plateau", {});
  expect_reductions(
      "plateau.max",
      {.mode = PlateauMode::max, .factor = 0.5, .patience = 3, .threshold = 0.01, .cooldown = 4});
  expect_reductions("plateau.abs", {.factor = 0.3,
                                    .patience = 5,
                                    .threshold = 0.05,
                                    .threshold_mode = ThresholdMode::abs,
                                    .min_lr = 1e-4});
  expect_reductions("plateau.max.abs", {.mode = PlateauMode::max,
                                        .factor = 0.9,
                                        .patience = 0,
                                        .threshold_mode = ThresholdMode::abs,
                                        .min_lr = std::vector{0.1, 0.05}});
  expect_reductions("plateau.eps", {.factor = 0.5, .patience = 1, .eps = 0.01});
}

TEST(ReduceLROnPlateau, RefusesWhatMakesNoSense) {
  SGD o(test::hashed_parameters());
  EXPECT_ERROR(ReduceLROnPlateau(o, {.factor = 1}), Error, "factor is 1, but must be below 1");
  EXPECT_ERROR(ReduceLROnPlateau(o, {.patience = -1}), Error,
               "patience and cooldown are -1 and 0, but must not be negative");
  EXPECT_ERROR(ReduceLROnPlateau(o, {.min_lr = std::vector{0.0, 0.0}}), Error,
               "min_lr has 2 values, the optimizer 1 groups");
  ReduceLROnPlateau schedule(o);
  LRSchedule& base = schedule;
  EXPECT_ERROR(base.step(), Error, "ReduceLROnPlateau.step: needs the metric");
}

}  // namespace
}  // namespace rondo
