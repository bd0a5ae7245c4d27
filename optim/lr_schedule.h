#pragma once
// Learning-rate schedules with PyTorch's names, defaults and arithmetic.
//
//   optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::OneCycleLR schedule(sgd, {.max_lr = 0.3, .total_steps = epochs * steps});
//   ... loss.backward(); sgd.step(); schedule.step();
//
// The constructor sets the rate of the first step; each `step()` then sets the rate of the next
// one. Most schedules compute it from the current rate, not from a closed form, so several
// schedules can act on one optimizer at once (ChainedScheduler). LambdaLR, OneCycleLR, CyclicLR and
// CosineAnnealingWarmRestarts overwrite the rate. All schedules start from the optimizer's
// `initial_lr`, which the first schedule sets.
//
// A schedule refers to its optimizer, which must outlive it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace rondo::optim {

/// The state of a schedule: its counter and its settings, by name, and the state of the schedules
/// inside it. The rates themselves are in the optimizer's state.
struct ScheduleState {
  std::string type;  // "StepLR"
  std::map<std::string, std::vector<double>> values;
  std::vector<ScheduleState> children;
  bool operator==(const ScheduleState&) const = default;
};

class LRSchedule {
 public:
  virtual ~LRSchedule() = default;

  virtual const char* type() const = 0;
  /// Sets the rates for the next step.
  virtual void step();
  /// Steps taken so far.
  std::int64_t last_step() const { return last_step_; }
  /// The current rate.
  double last_lr(std::size_t group = 0) const { return optimizer_->lr(group); }
  Optimizer& optimizer() const { return *optimizer_; }

  virtual ScheduleState state_dict() const;
  /// Throws Error naming what differs or is missing. Does not change the optimizer: the rates are
  /// in the optimizer's own state.
  virtual void load_state_dict(const ScheduleState& state);

 protected:
  explicit LRSchedule(Optimizer& optimizer);
  LRSchedule(const LRSchedule&) = default;
  LRSchedule& operator=(const LRSchedule&) = default;

  /// The group's rate at step 0, and at step last_step_ > 0, given the current rate.
  virtual double first_lr(std::size_t /*group*/, double lr) { return lr; }
  virtual double next_lr(std::size_t group, double lr) = 0;
  /// The settings, by name; `load_settings` restores them.
  virtual std::map<std::string, std::vector<double>> settings() const = 0;
  virtual void load_settings(const std::map<std::string, std::vector<double>>& values) = 0;

  /// Performs step 0 from the current rate; constructors call it last.
  virtual void start();
  /// Performs step 0 within a SequentialLR: from the rate that the optimizer had when this schedule
  /// was constructed, or from the current rate, if the schedule knows nothing else (SWALR,
  /// MultiplicativeLR), as PyTorch does.
  virtual void restart();

  /// Throws Error if groups were added since. Each `step` begins with it.
  void require_same_groups() const;

  Optimizer* optimizer_;
  std::int64_t last_step_ = 0;
  std::vector<double> base_lrs_;

  friend class SequentialLR;
  friend class ChainedScheduler;
};

struct StepLROptions {
  std::int64_t step_size;
  double gamma = 0.1;
};
/// lr ← lr · gamma every step_size steps. Throws Error unless step_size ≥ 1.
class StepLR final : public LRSchedule {
 public:
  StepLR(Optimizer& optimizer, StepLROptions options);
  const char* type() const override { return "StepLR"; }

 private:
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  StepLROptions o_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;
};
/// lr ← lr · gamma at each milestone (twice, if it is listed twice).
class MultiStepLR final : public LRSchedule {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);
  const char* type() const override { return "MultiStepLR"; }

 private:
  double first_lr(std::size_t group, double lr) override { return next_lr(group, lr); }
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  MultiStepLROptions o_;
};

struct ExponentialLROptions {
  double gamma;
};
/// lr ← lr · gamma at every step. Throws Error unless gamma is positive.
class ExponentialLR final : public LRSchedule {
 public:
  ExponentialLR(Optimizer& optimizer, ExponentialLROptions options);
  const char* type() const override { return "ExponentialLR"; }

 private:
  double next_lr(std::size_t, double lr) override { return lr * o_.gamma; }
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  ExponentialLROptions o_;
};

struct ConstantLROptions {
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
};
/// lr₀ · factor for total_iters steps, then lr₀. Throws Error unless 0 < factor ≤ 1 and total_iters
/// ≥ 1.
class ConstantLR final : public LRSchedule {
 public:
  explicit ConstantLR(Optimizer& optimizer, ConstantLROptions options = {});
  const char* type() const override { return "ConstantLR"; }

 private:
  double first_lr(std::size_t, double lr) override { return lr * o_.factor; }
  double next_lr(std::size_t, double lr) override {
    return last_step_ == o_.total_iters ? lr * (1 / o_.factor) : lr;
  }
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  ConstantLROptions o_;
};

struct PolynomialLROptions {
  std::int64_t total_iters = 5;
  double power = 1;
};
/// lr₀ (1 − t / total_iters)^power, which is 0 from total_iters on. Throws Error unless total_iters
/// ≥ 1.
class PolynomialLR final : public LRSchedule {
 public:
  explicit PolynomialLR(Optimizer& optimizer, PolynomialLROptions options = {});
  const char* type() const override { return "PolynomialLR"; }

 private:
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  PolynomialLROptions o_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
};
/// lr · (a straight line from start_factor to end_factor over total_iters steps, then constant):
/// the usual warm-up. Throws Error unless 0 < start_factor ≤ 1, 0 ≤ end_factor ≤ 1, total_iters ≥
/// 1.
class LinearLR final : public LRSchedule {
 public:
  explicit LinearLR(Optimizer& optimizer, LinearLROptions options = {});
  const char* type() const override { return "LinearLR"; }

 private:
  double first_lr(std::size_t, double lr) override { return lr * o_.start_factor; }
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  LinearLROptions o_;
};
using LinearWarmup = LinearLR;
using LinearWarmupOptions = LinearLROptions;

struct CosineAnnealingLROptions {
  std::int64_t t_max;
  double eta_min = 0;
};
/// eta_min + (lr₀ − eta_min) (1 + cos(π t / t_max)) / 2. The rate rises again after t_max,
/// without restarts (Loshchilov and Hutter 2017). Throws Error unless t_max ≥ 1.
class CosineAnnealingLR final : public LRSchedule {
 public:
  CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options);
  const char* type() const override { return "CosineAnnealingLR"; }

 private:
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  CosineAnnealingLROptions o_;
};

/// lr₀ · f(step). The state contains only the counter, not f.
class LambdaLR final : public LRSchedule {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> f);
  const char* type() const override { return "LambdaLR"; }

 private:
  double first_lr(std::size_t group, double lr) override { return next_lr(group, lr); }
  double next_lr(std::size_t group, double) override { return base_lrs_[group] * f_(last_step_); }
  std::map<std::string, std::vector<double>> settings() const override { return {}; }
  void load_settings(const std::map<std::string, std::vector<double>>&) override {}
  std::function<double(std::int64_t)> f_;
};

/// lr ← lr · f(step). The state contains only the counter, not f.
class MultiplicativeLR final : public LRSchedule {
 public:
  MultiplicativeLR(Optimizer& optimizer, std::function<double(std::int64_t)> f);
  const char* type() const override { return "MultiplicativeLR"; }

 private:
  double next_lr(std::size_t, double lr) override { return lr * f_(last_step_); }
  void restart() override;
  std::map<std::string, std::vector<double>> settings() const override { return {}; }
  void load_settings(const std::map<std::string, std::vector<double>>&) override {}
  std::function<double(std::int64_t)> f_;
};

/// One schedule after another: schedule i + 1 starts, from its own step 0, at milestones[i]. Throws
/// Error unless there is exactly one more schedule than milestones, all on one optimizer.
class SequentialLR final : public LRSchedule {
 public:
  SequentialLR(std::vector<std::shared_ptr<LRSchedule>> schedules,
               std::vector<std::int64_t> milestones);
  const char* type() const override { return "SequentialLR"; }
  void step() override;
  ScheduleState state_dict() const override;
  void load_state_dict(const ScheduleState& state) override;

 private:
  double next_lr(std::size_t, double lr) override { return lr; }
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  void start() override;
  void restart() override;
  std::vector<std::shared_ptr<LRSchedule>> schedules_;
  std::vector<std::int64_t> milestones_;
};

/// Runs all schedules at every step, in order, so their factors multiply. Throws Error unless there
/// is at least one, all on one optimizer.
class ChainedScheduler final : public LRSchedule {
 public:
  explicit ChainedScheduler(std::vector<std::shared_ptr<LRSchedule>> schedules);
  const char* type() const override { return "ChainedScheduler"; }
  void step() override;
  ScheduleState state_dict() const override;
  void load_state_dict(const ScheduleState& state) override;

 private:
  double next_lr(std::size_t, double lr) override { return lr; }
  std::map<std::string, std::vector<double>> settings() const override { return {}; }
  void load_settings(const std::map<std::string, std::vector<double>>&) override {}
  void start() override;
  std::vector<std::shared_ptr<LRSchedule>> schedules_;
};

}  // namespace rondo::optim
