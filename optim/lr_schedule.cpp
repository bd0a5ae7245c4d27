#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/settings.h"

namespace rondo::optim {

using detail::Settings;
using Values = std::map<std::string, std::vector<double>>;

// ---- The base
// ----------------------------------------------------------------------------------------

LRSchedule::LRSchedule(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) {
    if (!optimizer.initial_lr(g)) optimizer.set_initial_lr(g, optimizer.lr(g));
    base_lrs_.push_back(*optimizer.initial_lr(g));
  }
}

void LRSchedule::start() {
  last_step_ = 0;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    optimizer_->schedule_lr(g, first_lr(g, optimizer_->lr(g)));
  }
}

void LRSchedule::restart() {
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) optimizer_->schedule_lr(g, base_lrs_[g]);
  start();
}

void LRSchedule::require_same_groups() const {
  require(base_lrs_.size() == optimizer_->num_groups(), type(), ": the optimizer has ",
          optimizer_->num_groups(), " groups, but had ", base_lrs_.size(),
          " when the schedule was made; make a schedule after the last add_param_group");
}

void LRSchedule::step() {
  require_same_groups();
  ++last_step_;
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) {
    optimizer_->schedule_lr(g, next_lr(g, optimizer_->lr(g)));
  }
}

ScheduleState LRSchedule::state_dict() const {
  ScheduleState state{.type = type(), .values = settings(), .children = {}};
  state.values["last_step"] = {static_cast<double>(last_step_)};
  state.values["base_lrs"] = base_lrs_;
  return state;
}

void LRSchedule::load_state_dict(const ScheduleState& state) {
  require(state.type == type(), type(), ".load_state_dict: the state is that of ", state.type);
  Settings s{type(), state.values};
  auto last_step = s.integer("last_step");
  const auto& base_lrs = s.list("base_lrs");
  require(last_step >= 0, type(), ".load_state_dict: last_step is ", last_step);
  require(base_lrs.size() == base_lrs_.size(), type(), ".load_state_dict: the state is of ",
          base_lrs.size(), " parameter groups, the optimizer has ", base_lrs_.size());
  load_settings(state.values);
  last_step_ = last_step;
  base_lrs_ = base_lrs;
}

// ---- Single schedules
// --------------------------------------------------------------------------------

namespace {

void check_positive(const char* type, const char* name, std::int64_t value) {
  require(value >= 1, type, ": ", name, " is ", value, ", but must be at least 1");
}

void check(const LinearLROptions& o) {
  require(o.start_factor > 0 && o.start_factor <= 1, "LinearLR: start_factor is ", o.start_factor,
          ", but must be in (0, 1]");
  require(o.end_factor >= 0 && o.end_factor <= 1, "LinearLR: end_factor is ", o.end_factor,
          ", but must be in [0, 1]");
  check_positive("LinearLR", "total_iters", o.total_iters);
}

void check(const ConstantLROptions& o) {
  require(o.factor > 0 && o.factor <= 1, "ConstantLR: factor is ", o.factor,
          ", but must be in (0, 1]");
  check_positive("ConstantLR", "total_iters", o.total_iters);
}

}  // namespace

StepLR::StepLR(Optimizer& optimizer, StepLROptions options) : LRSchedule(optimizer), o_(options) {
  check_positive(type(), "step_size", o_.step_size);
  start();
}
double StepLR::next_lr(std::size_t, double lr) {
  return last_step_ % o_.step_size == 0 ? lr * o_.gamma : lr;
}
Values StepLR::settings() const {
  return {{"step_size", {static_cast<double>(o_.step_size)}}, {"gamma", {o_.gamma}}};
}
void StepLR::load_settings(const Values& values) {
  Settings s{type(), values};
  StepLROptions o{.step_size = s.integer("step_size"), .gamma = s.number("gamma")};
  check_positive(type(), "step_size", o.step_size);
  o_ = o;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : LRSchedule(optimizer), o_(std::move(options)) {
  start();
}
double MultiStepLR::next_lr(std::size_t, double lr) {
  auto times = std::count(o_.milestones.begin(), o_.milestones.end(), last_step_);
  return times == 0 ? lr : lr * std::pow(o_.gamma, static_cast<double>(times));
}
Values MultiStepLR::settings() const {
  return {{"milestones", detail::doubles(o_.milestones)}, {"gamma", {o_.gamma}}};
}
void MultiStepLR::load_settings(const Values& values) {
  Settings s{type(), values};
  o_ = {.milestones = s.integers("milestones"), .gamma = s.number("gamma")};
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, ExponentialLROptions options)
    : LRSchedule(optimizer), o_(options) {
  require(o_.gamma > 0, "ExponentialLR: gamma is ", o_.gamma, ", but must be positive");
  start();
}
Values ExponentialLR::settings() const { return {{"gamma", {o_.gamma}}}; }
void ExponentialLR::load_settings(const Values& values) {
  o_.gamma = Settings{type(), values}.number("gamma");
}

ConstantLR::ConstantLR(Optimizer& optimizer, ConstantLROptions options)
    : LRSchedule(optimizer), o_(options) {
  check(o_);
  start();
}
Values ConstantLR::settings() const {
  return {{"factor", {o_.factor}}, {"total_iters", {static_cast<double>(o_.total_iters)}}};
}
void ConstantLR::load_settings(const Values& values) {
  Settings s{type(), values};
  ConstantLROptions o{.factor = s.number("factor"), .total_iters = s.integer("total_iters")};
  check(o);
  o_ = o;
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, PolynomialLROptions options)
    : LRSchedule(optimizer), o_(options) {
  check_positive(type(), "total_iters", o_.total_iters);
  start();
}
double PolynomialLR::next_lr(std::size_t, double lr) {
  if (last_step_ > o_.total_iters) return lr;
  auto t = static_cast<double>(last_step_), total = static_cast<double>(o_.total_iters);
  return lr * std::pow((1 - t / total) / (1 - (t - 1) / total), o_.power);
}
Values PolynomialLR::settings() const {
  return {{"total_iters", {static_cast<double>(o_.total_iters)}}, {"power", {o_.power}}};
}
void PolynomialLR::load_settings(const Values& values) {
  Settings s{type(), values};
  PolynomialLROptions o{.total_iters = s.integer("total_iters"), .power = s.number("power")};
  check_positive(type(), "total_iters", o.total_iters);
  o_ = o;
}

LinearLR::LinearLR(Optimizer& optimizer, LinearLROptions options)
    : LRSchedule(optimizer), o_(options) {
  check(o_);
  start();
}
double LinearLR::next_lr(std::size_t, double lr) {
  if (last_step_ > o_.total_iters) return lr;
  // The ratio of the line's values at this step and at the step before.
  double slope = o_.end_factor - o_.start_factor;
  return lr * (1 + slope / (static_cast<double>(o_.total_iters) * o_.start_factor +
                            static_cast<double>(last_step_ - 1) * slope));
}
Values LinearLR::settings() const {
  return {{"start_factor", {o_.start_factor}},
          {"end_factor", {o_.end_factor}},
          {"total_iters", {static_cast<double>(o_.total_iters)}}};
}
void LinearLR::load_settings(const Values& values) {
  Settings s{type(), values};
  LinearLROptions o{.start_factor = s.number("start_factor"),
                    .end_factor = s.number("end_factor"),
                    .total_iters = s.integer("total_iters")};
  check(o);
  o_ = o;
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options)
    : LRSchedule(optimizer), o_(options) {
  check_positive(type(), "t_max", o_.t_max);
  start();
}
double CosineAnnealingLR::next_lr(std::size_t group, double lr) {
  auto t = static_cast<double>(last_step_), t_max = static_cast<double>(o_.t_max);
  constexpr double pi = std::numbers::pi;
  // One step after a minimum, the quotient below would be 0 / 0.
  if (last_step_ > o_.t_max && (last_step_ - 1 - o_.t_max) % (2 * o_.t_max) == 0) {
    return lr + (base_lrs_[group] - o_.eta_min) * (1 - std::cos(pi / t_max)) / 2;
  }
  return (1 + std::cos(pi * t / t_max)) / (1 + std::cos(pi * (t - 1) / t_max)) * (lr - o_.eta_min) +
         o_.eta_min;
}
Values CosineAnnealingLR::settings() const {
  return {{"t_max", {static_cast<double>(o_.t_max)}}, {"eta_min", {o_.eta_min}}};
}
void CosineAnnealingLR::load_settings(const Values& values) {
  Settings s{type(), values};
  CosineAnnealingLROptions o{.t_max = s.integer("t_max"), .eta_min = s.number("eta_min")};
  check_positive(type(), "t_max", o.t_max);
  o_ = o;
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> f)
    : LRSchedule(optimizer), f_(std::move(f)) {
  require(f_ != nullptr, "LambdaLR: the function is empty");
  start();
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::function<double(std::int64_t)> f)
    : LRSchedule(optimizer), f_(std::move(f)) {
  require(f_ != nullptr, "MultiplicativeLR: the function is empty");
  start();
}

void MultiplicativeLR::restart() {
  last_step_ = -1;
  step();  // PyTorch multiplies at this step, too
}

// ---- Schedules of schedules
// --------------------------------------------------------------------------

namespace {

Optimizer& common_optimizer(const char* type,
                            const std::vector<std::shared_ptr<LRSchedule>>& schedules) {
  require(!schedules.empty(), type, ": no schedules were given");
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    require(schedules[i] != nullptr, type, ": schedule ", i, " is null");
    require(&schedules[i]->optimizer() == &schedules[0]->optimizer(), type, ": schedule ", i,
            " uses another optimizer than schedule 0");
  }
  return schedules[0]->optimizer();
}

ScheduleState with_children(ScheduleState state,
                            const std::vector<std::shared_ptr<LRSchedule>>& schedules) {
  for (const auto& s : schedules) state.children.push_back(s->state_dict());
  return state;
}

void load_children(const char* type, const ScheduleState& state,
                   const std::vector<std::shared_ptr<LRSchedule>>& schedules) {
  require(state.children.size() == schedules.size(), type, ".load_state_dict: the state has ",
          state.children.size(), " schedules, this has ", schedules.size());
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    schedules[i]->load_state_dict(state.children[i]);
  }
}

}  // namespace

SequentialLR::SequentialLR(std::vector<std::shared_ptr<LRSchedule>> schedules,
                           std::vector<std::int64_t> milestones)
    : LRSchedule(common_optimizer("SequentialLR", schedules)),
      schedules_(std::move(schedules)),
      milestones_(std::move(milestones)) {
  require(milestones_.size() + 1 == schedules_.size(), "SequentialLR: there are ",
          schedules_.size(), " schedules, which need ", schedules_.size() - 1, " milestones, not ",
          milestones_.size());
  require(std::is_sorted(milestones_.begin(), milestones_.end()),
          "SequentialLR: the milestones do not ascend");
  for (const auto& schedule : schedules_) schedule->require_same_groups();
  restart();  // undoes the changes of the rate that the schedules made when they were constructed
}

void SequentialLR::start() {
  last_step_ = 0;
  auto now = std::upper_bound(milestones_.begin(), milestones_.end(), 0) - milestones_.begin();
  schedules_[static_cast<std::size_t>(now)]->start();
}

void SequentialLR::restart() {
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) optimizer_->set_lr(g, base_lrs_[g]);
  start();
}

void SequentialLR::step() {
  require_same_groups();
  ++last_step_;
  auto next = std::upper_bound(milestones_.begin(), milestones_.end(), last_step_);
  auto i = static_cast<std::size_t>(next - milestones_.begin());
  if (i > 0 && milestones_[i - 1] == last_step_) {
    schedules_[i]->restart();
  } else {
    schedules_[i]->step();
  }
}

Values SequentialLR::settings() const { return {{"milestones", detail::doubles(milestones_)}}; }
void SequentialLR::load_settings(const Values& values) {
  auto milestones = Settings{type(), values}.integers("milestones");
  require(milestones.size() == milestones_.size() &&
              std::is_sorted(milestones.begin(), milestones.end()),
          "SequentialLR.load_state_dict: the state has milestones that do not fit");
  milestones_ = std::move(milestones);
}
ScheduleState SequentialLR::state_dict() const {
  return with_children(LRSchedule::state_dict(), schedules_);
}
void SequentialLR::load_state_dict(const ScheduleState& state) {
  load_children(type(), state, schedules_);
  LRSchedule::load_state_dict(state);
}

ChainedScheduler::ChainedScheduler(std::vector<std::shared_ptr<LRSchedule>> schedules)
    : LRSchedule(common_optimizer("ChainedScheduler", schedules)),
      schedules_(std::move(schedules)) {
  for (const auto& schedule : schedules_) schedule->require_same_groups();
}

void ChainedScheduler::start() {
  last_step_ = 0;
  for (auto& s : schedules_) s->start();
}
void ChainedScheduler::step() {
  require_same_groups();
  ++last_step_;
  for (auto& s : schedules_) s->step();
}
ScheduleState ChainedScheduler::state_dict() const {
  return with_children(LRSchedule::state_dict(), schedules_);
}
void ChainedScheduler::load_state_dict(const ScheduleState& state) {
  load_children(type(), state, schedules_);
  LRSchedule::load_state_dict(state);
}

}  // namespace rondo::optim
