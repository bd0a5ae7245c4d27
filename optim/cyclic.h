#pragma once
// Schedules that repeat: CyclicLR (Smith 2017) and CosineAnnealingWarmRestarts (Loshchilov and
// Hutter 2017).

#include <optional>

#include "optim/lr_schedule.h"
#include "optim/per_group.h"

namespace rondo::optim {

enum class CyclicMode : std::uint8_t { triangular, triangular2, exp_range };
enum class ScaleMode : std::uint8_t { cycle, iterations };

struct CyclicLROptions {
  PerGroup base_lr;
  PerGroup max_lr;
  std::int64_t step_size_up = 2000;
  std::optional<std::int64_t> step_size_down = {};  // none: step_size_up
  CyclicMode mode = CyclicMode::triangular;
  double gamma = 1;
  /// Replaces the mode. It gets the cycle, counted from 1, or the step, as scale_mode says. The
  /// state does not contain it.
  std::function<double(double)> scale_fn = {};
  ScaleMode scale_mode = ScaleMode::cycle;
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.8;
  PerGroup max_momentum = 0.9;
};

/// Up from base_lr to max_lr in step_size_up steps and down again in step_size_down:
///
///   lr = base_lr + (max_lr − base_lr) · height · scale
///   momentum = max_momentum − (max_momentum − base_momentum) · height · scale
///
/// height goes from 0 to 1 and back. scale is 1 (triangular), 1 / 2^(cycle − 1) (triangular2) or
/// gamma^step (exp_range). The momentum is SGD's momentum or Adam's first beta.
class CyclicLR final : public LRSchedule {
 public:
  /// Throws Error for sizes below 1, for per-group lists of another length than the optimizer's
  /// groups, and with cycle_momentum for an optimizer without momentum.
  CyclicLR(Optimizer& optimizer, CyclicLROptions options);
  const char* type() const override { return "CyclicLR"; }

 private:
  double first_lr(std::size_t group, double lr) override { return next_lr(group, lr); }
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  double scale(double cycle) const;

  CyclicLROptions o_;
};

struct CosineAnnealingWarmRestartsOptions {
  std::int64_t t_0;
  std::int64_t t_mult = 1;
  double eta_min = 0;
};

/// eta_min + (lr₀ − eta_min) (1 + cos(π t / T)) / 2, where t starts again from 0 after T steps. T
/// is t_0 first and grows by the factor t_mult at each restart.
class CosineAnnealingWarmRestarts final : public LRSchedule {
 public:
  /// Throws Error unless t_0 ≥ 1 and t_mult ≥ 1.
  CosineAnnealingWarmRestarts(Optimizer& optimizer, CosineAnnealingWarmRestartsOptions options);
  const char* type() const override { return "CosineAnnealingWarmRestarts"; }
  void step() override;
  /// Goes to any point, such as epoch + batch / batches. Throws Error for a negative one.
  void step(double epoch);

 private:
  double first_lr(std::size_t group, double lr) override { return next_lr(group, lr); }
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  void start() override;

  CosineAnnealingWarmRestartsOptions o_;
  double t_cur_ = 0, t_i_;
};

}  // namespace rondo::optim
