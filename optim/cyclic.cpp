#include "optim/cyclic.h"

#include <cmath>
#include <numbers>

#include "optim/settings.h"

namespace rondo::optim {
namespace {

void check(const Optimizer& optimizer, const CyclicLROptions& o) {
  const std::int64_t down = o.step_size_down.value_or(o.step_size_up);
  require(o.step_size_up >= 1 && down >= 1, "CyclicLR: step_size_up and step_size_down are ",
          o.step_size_up, " and ", down, ", but must be at least 1");
  o.base_lr.check_length("CyclicLR", "base_lr", optimizer);
  o.max_lr.check_length("CyclicLR", "max_lr", optimizer);
  o.base_momentum.check_length("CyclicLR", "base_momentum", optimizer);
  o.max_momentum.check_length("CyclicLR", "max_momentum", optimizer);
}

/// The first schedule of an optimizer takes its rate as the one from which schedules start.
Optimizer& at_base_lr(Optimizer& optimizer, const CyclicLROptions& o) {
  check(optimizer, o);
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) optimizer.set_lr(g, o.base_lr.at(g));
  return optimizer;
}

void check(const CosineAnnealingWarmRestartsOptions& o) {
  require(o.t_0 >= 1 && o.t_mult >= 1, "CosineAnnealingWarmRestarts: t_0 and t_mult are ", o.t_0,
          " and ", o.t_mult, ", but must be at least 1");
}

}  // namespace

// ---- CyclicLR

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicLROptions options)
    : LRSchedule(at_base_lr(optimizer, options)), o_(std::move(options)) {
  for (std::size_t g = 0; g < base_lrs_.size(); ++g) base_lrs_[g] = o_.base_lr.at(g);
  start();
}

double CyclicLR::scale(double cycle) const {
  const auto step = static_cast<double>(last_step_);
  if (o_.scale_fn) return o_.scale_fn(o_.scale_mode == ScaleMode::cycle ? cycle : step);
  switch (o_.mode) {
    case CyclicMode::triangular:
      return 1;
    case CyclicMode::triangular2:
      return 1 / std::pow(2.0, cycle - 1);
    case CyclicMode::exp_range:
      return std::pow(o_.gamma, step);
  }
  return 1;
}

double CyclicLR::next_lr(std::size_t group, double) {
  const auto up = static_cast<double>(o_.step_size_up),
             down = static_cast<double>(o_.step_size_down.value_or(o_.step_size_up)),
             step = static_cast<double>(last_step_), total = up + down, turn = up / total;
  const double cycle = std::floor(1 + step / total), x = 1 + step / total - cycle;
  const double height = (x <= turn ? x / turn : (x - 1) / (turn - 1)) * scale(cycle);
  if (o_.cycle_momentum) {
    const double base = o_.base_momentum.at(group), max = o_.max_momentum.at(group);
    optimizer_->set_momentum(group, max - (max - base) * height);
  }
  return base_lrs_[group] + (o_.max_lr.at(group) - base_lrs_[group]) * height;
}

std::map<std::string, std::vector<double>> CyclicLR::settings() const {
  const std::int64_t down = o_.step_size_down.value_or(o_.step_size_up);
  return {{"base_lr", o_.base_lr.values},
          {"max_lr", o_.max_lr.values},
          {"step_size_up", {static_cast<double>(o_.step_size_up)}},
          {"step_size_down", {static_cast<double>(down)}},
          {"mode", {static_cast<double>(o_.mode)}},
          {"gamma", {o_.gamma}},
          {"scale_mode", {static_cast<double>(o_.scale_mode)}},
          {"cycle_momentum", {o_.cycle_momentum ? 1.0 : 0.0}},
          {"base_momentum", o_.base_momentum.values},
          {"max_momentum", o_.max_momentum.values}};
}

void CyclicLR::load_settings(const std::map<std::string, std::vector<double>>& values) {
  detail::Settings s{type(), values};
  CyclicLROptions o{.base_lr = s.list("base_lr"),
                    .max_lr = s.list("max_lr"),
                    .step_size_up = s.integer("step_size_up"),
                    .step_size_down = s.integer("step_size_down"),
                    .mode = s.choice<CyclicMode>("mode", 3),
                    .gamma = s.number("gamma"),
                    .scale_fn = o_.scale_fn,
                    .scale_mode = s.choice<ScaleMode>("scale_mode", 2),
                    .cycle_momentum = s.number("cycle_momentum") != 0,
                    .base_momentum = s.list("base_momentum"),
                    .max_momentum = s.list("max_momentum")};
  check(*optimizer_, o);
  o_ = std::move(o);
}

// ---- CosineAnnealingWarmRestarts

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer,
                                                         CosineAnnealingWarmRestartsOptions options)
    : LRSchedule(optimizer), o_(options) {
  check(o_);
  start();
}

void CosineAnnealingWarmRestarts::start() {
  t_cur_ = 0;
  t_i_ = static_cast<double>(o_.t_0);
  LRSchedule::start();
}

void CosineAnnealingWarmRestarts::step() {
  require_same_groups();
  t_cur_ += 1;
  if (t_cur_ >= t_i_) {
    t_cur_ = std::fmod(t_cur_, t_i_);
    t_i_ *= static_cast<double>(o_.t_mult);
  }
  LRSchedule::step();
}

void CosineAnnealingWarmRestarts::step(double epoch) {
  require_same_groups();
  require(epoch >= 0 && epoch < 0x1p53, type(), ".step: epoch is ", epoch,
          ", but must be at least 0 and below 2^53");
  t_cur_ = epoch;
  t_i_ = static_cast<double>(o_.t_0);
  if (o_.t_mult == 1) {
    t_cur_ = std::fmod(epoch, t_i_);
  } else {
    for (; t_cur_ >= t_i_; t_i_ *= static_cast<double>(o_.t_mult)) t_cur_ -= t_i_;
  }
  last_step_ = static_cast<std::int64_t>(epoch) - 1;
  LRSchedule::step();
}

double CosineAnnealingWarmRestarts::next_lr(std::size_t group, double) {
  return o_.eta_min +
         (base_lrs_[group] - o_.eta_min) * (1 + std::cos(std::numbers::pi * t_cur_ / t_i_)) / 2;
}

std::map<std::string, std::vector<double>> CosineAnnealingWarmRestarts::settings() const {
  return {{"t_0", {static_cast<double>(o_.t_0)}},
          {"t_mult", {static_cast<double>(o_.t_mult)}},
          {"eta_min", {o_.eta_min}},
          {"t_cur", {t_cur_}},
          {"t_i", {t_i_}}};
}

void CosineAnnealingWarmRestarts::load_settings(
    const std::map<std::string, std::vector<double>>& values) {
  detail::Settings s{type(), values};
  CosineAnnealingWarmRestartsOptions o{
      .t_0 = s.integer("t_0"), .t_mult = s.integer("t_mult"), .eta_min = s.number("eta_min")};
  check(o);
  const double t_cur = s.number("t_cur"), t_i = s.number("t_i");
  require(t_cur >= 0 && t_cur < t_i, type(), ".load_state_dict: t_cur is ", t_cur,
          ", but must be at least 0 and below t_i, which is ", t_i);
  o_ = o;
  t_cur_ = t_cur;
  t_i_ = t_i;
}

}  // namespace rondo::optim
