#pragma once
// OneCycleLR: one cycle, up to a high rate and down to almost zero (Smith and Topin 2018,
// "Super-convergence"). The CIFAR example uses it.
//
//   phase 1: initial → max over the first pct_start of the steps, momentum max → base
//   phase 2: max → min over the rest,                             momentum base → max
//
// with initial = max_lr / div_factor and min = initial / final_div_factor. In the three-phase form,
// phase 2 mirrors phase 1, and a third phase goes from initial to min. The momentum is SGD's
// momentum or Adam's first beta.

#include "optim/lr_schedule.h"
#include "optim/per_group.h"

namespace rondo::optim {

struct OneCycleLROptions {
  PerGroup max_lr;
  std::int64_t total_steps = 0;                  // or both of these:
  std::int64_t epochs = 0, steps_per_epoch = 0;  // total_steps is their product
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::cos;
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};

class OneCycleLR final : public LRSchedule {
 public:
  /// Throws Error for fewer than one step, pct_start outside [0, 1], factors that are not positive,
  /// or per-group lists of another length than the optimizer's groups.
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);
  const char* type() const override { return "OneCycleLR"; }
  /// Throws Error after total_steps steps.
  void step() override;

 private:
  double first_lr(std::size_t group, double lr) override { return next_lr(group, lr); }
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;

  OneCycleLROptions o_;
};

}  // namespace rondo::optim
