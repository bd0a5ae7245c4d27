#pragma once
// Learning-rate schedules: PyTorch's, with its defaults and its arithmetic.
//
//   optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::OneCycleLR schedule(sgd, {.max_lr = 0.3, .total_steps = epochs * steps});
//   ... loss.backward(); sgd.step(); schedule.step();
//
// Construction sets the rate of the first step; each `step()` then sets that of the next. Most
// schedules compute it from the rate that is set now, not from a closed form, which is what lets
// several act on one optimizer at once (ChainedScheduler); LambdaLR and OneCycleLR overwrite it.
// The rate that all start from is the optimizer's `initial_lr`, which the first schedule notes.
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

/// What a schedule must remember: its counter and its settings, by name; those of the schedules in
/// it. Rates themselves are in the optimizer's state.
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
  /// The rate set last.
  double last_lr(std::size_t group = 0) const { return optimizer_->lr(group); }
  Optimizer& optimizer() const { return *optimizer_; }

  virtual ScheduleState state_dict() const;
  /// Throws Error naming what differs or is absent. Does not touch the optimizer: its own state
  /// holds the rates.
  virtual void load_state_dict(const ScheduleState& state);

 protected:
  explicit LRSchedule(Optimizer& optimizer);
  LRSchedule(const LRSchedule&) = default;
  LRSchedule& operator=(const LRSchedule&) = default;

  /// The group's rate at step 0, and at step last_step_ > 0, given the rate now set.
  virtual double first_lr(std::size_t /*group*/, double lr) { return lr; }
  virtual double next_lr(std::size_t group, double lr) = 0;
  /// The settings, by name; `load_settings` takes them back.
  virtual std::map<std::string, std::vector<double>> settings() const = 0;
  virtual void load_settings(const std::map<std::string, std::vector<double>>& values) = 0;

  /// Step 0 with the rate now set; constructors end with it.
  virtual void start();
  /// Step 0 from the rate that this schedule found at its construction.
  virtual void restart();

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
/// lr ← lr · gamma at every step.
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

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
};
/// lr · (a straight line from start_factor to end_factor over total_iters steps, then flat): the
/// usual warm-up. Throws Error unless 0 < start_factor ≤ 1, 0 ≤ end_factor ≤ 1, total_iters ≥ 1.
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
/// eta_min + (lr₀ − eta_min) (1 + cos(π t / t_max)) / 2, up again after t_max, without restarts
/// (Loshchilov and Hutter 2017). Throws Error unless t_max ≥ 1.
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

/// lr₀ · f(step). Only the counter is saved: f is the program's.
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

/// One schedule after the other: number i + 1 takes over, from its own start, at milestones[i].
/// Throws Error unless there is one schedule more than milestones, all on one optimizer.
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

/// All schedules at every step, in order: their factors multiply. Throws Error unless there is at
/// least one, all on one optimizer.
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
