#include "optim/plateau.h"

#include <algorithm>
#include <limits>

#include "optim/settings.h"

namespace rondo::optim {
namespace {

void check(const Optimizer& optimizer, const ReduceLROnPlateauOptions& o) {
  require(o.factor < 1, "ReduceLROnPlateau: factor is ", o.factor, ", but must be below 1");
  require(o.patience >= 0 && o.cooldown >= 0, "ReduceLROnPlateau: patience and cooldown are ",
          o.patience, " and ", o.cooldown, ", but must not be negative");
  o.min_lr.check_length("ReduceLROnPlateau", "min_lr", optimizer);
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : LRSchedule(optimizer), o_(std::move(options)) {
  check(optimizer, o_);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  best_ = o_.mode == PlateauMode::min ? infinity : -infinity;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = o_.mode == PlateauMode::min ? -1 : 1;
  const double bar = o_.threshold_mode == ThresholdMode::rel ? best_ * (1 + sign * o_.threshold)
                                                             : best_ + sign * o_.threshold;
  return o_.mode == PlateauMode::min ? metric < bar : metric > bar;
}

void ReduceLROnPlateau::step() {
  throw Error("ReduceLROnPlateau.step: needs the metric; call step(metric) after each evaluation");
}

void ReduceLROnPlateau::step(double metric) {
  require_same_groups();
  if (is_better(metric)) {
    best_ = metric;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= o_.patience) {
    ++last_step_;
    return;
  }
  cooldown_left_ = o_.cooldown;
  bad_steps_ = 0;
  LRSchedule::step();
}

double ReduceLROnPlateau::next_lr(std::size_t group, double lr) {
  const double lower = std::max(lr * o_.factor, o_.min_lr.at(group));
  return lr - lower > o_.eps ? lower : lr;
}

std::map<std::string, std::vector<double>> ReduceLROnPlateau::settings() const {
  return {{"mode", {static_cast<double>(o_.mode)}},
          {"factor", {o_.factor}},
          {"patience", {static_cast<double>(o_.patience)}},
          {"threshold", {o_.threshold}},
          {"threshold_mode", {static_cast<double>(o_.threshold_mode)}},
          {"cooldown", {static_cast<double>(o_.cooldown)}},
          {"min_lr", o_.min_lr.values},
          {"eps", {o_.eps}},
          {"best", {best_}},
          {"num_bad_epochs", {static_cast<double>(bad_steps_)}},
          {"cooldown_counter", {static_cast<double>(cooldown_left_)}}};
}

void ReduceLROnPlateau::load_settings(const std::map<std::string, std::vector<double>>& values) {
  detail::Settings s{type(), values};
  ReduceLROnPlateauOptions o{.mode = s.choice<PlateauMode>("mode", 2),
                             .factor = s.number("factor"),
                             .patience = s.integer("patience"),
                             .threshold = s.number("threshold"),
                             .threshold_mode = s.choice<ThresholdMode>("threshold_mode", 2),
                             .cooldown = s.integer("cooldown"),
                             .min_lr = s.list("min_lr"),
                             .eps = s.number("eps")};
  check(*optimizer_, o);
  const std::int64_t bad_steps = s.integer("num_bad_epochs"),
                     cooldown_left = s.integer("cooldown_counter");
  best_ = s.number("best");
  o_ = std::move(o);
  bad_steps_ = bad_steps;
  cooldown_left_ = cooldown_left;
}

}  // namespace rondo::optim
