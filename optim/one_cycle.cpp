#include "optim/one_cycle.h"

#include <cmath>
#include <numbers>

#include "optim/settings.h"

namespace rondo::optim {
namespace {

void check(const Optimizer& optimizer, const OneCycleLROptions& o) {
  require(o.total_steps >= 1, "OneCycleLR: total_steps is ", o.total_steps,
          ", but must be at least 1; give it, or both epochs and steps_per_epoch");
  require(o.pct_start >= 0 && o.pct_start <= 1, "OneCycleLR: pct_start is ", o.pct_start,
          ", but must be in [0, 1]");
  require(o.div_factor > 0 && o.final_div_factor > 0,
          "OneCycleLR: div_factor and final_div_factor are ", o.div_factor, " and ",
          o.final_div_factor, ", but must be positive");
  o.max_lr.check_length("OneCycleLR", "max_lr", optimizer);
  for (double lr : o.max_lr.values) detail::require_nonnegative("OneCycleLR", "max_lr", lr);
  o.base_momentum.check_length("OneCycleLR", "base_momentum", optimizer);
  o.max_momentum.check_length("OneCycleLR", "max_momentum", optimizer);
}

double anneal(Anneal how, double from, double to, double fraction) {
  if (how == Anneal::linear) return (to - from) * fraction + from;
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * fraction) + 1);
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRSchedule(optimizer), o_(std::move(options)) {
  require(o_.epochs >= 0 && o_.steps_per_epoch >= 0, "OneCycleLR: epochs ", o_.epochs,
          " and steps_per_epoch ", o_.steps_per_epoch, " must not be negative");
  if (o_.total_steps == 0) o_.total_steps = o_.epochs * o_.steps_per_epoch;
  check(optimizer, o_);
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) {
    base_lrs_[g] = o_.max_lr.at(g) / o_.div_factor;
    optimizer.set_initial_lr(g, base_lrs_[g]);
  }
  start();
}

void OneCycleLR::step() {
  require_same_groups();
  require(last_step_ < o_.total_steps, "OneCycleLR: step ", last_step_ + 1,
          " exceeds total_steps = ", o_.total_steps);
  LRSchedule::step();
}

double OneCycleLR::next_lr(std::size_t group, double) {
  struct Phase {
    double end, lr_from, lr_to, momentum_from, momentum_to;
  };
  double initial = base_lrs_[group], max = o_.max_lr.at(group), min = initial / o_.final_div_factor,
         slow = o_.base_momentum.at(group), fast = o_.max_momentum.at(group);
  auto total = static_cast<double>(o_.total_steps);
  double peak = o_.pct_start * total - 1;
  std::vector<Phase> phases{{peak, initial, max, fast, slow}};
  if (o_.three_phase) {
    phases.push_back({2 * o_.pct_start * total - 2, max, initial, slow, fast});
    phases.push_back({total - 1, initial, min, fast, fast});
  } else {
    phases.push_back({total - 1, max, min, slow, fast});
  }
  auto step = static_cast<double>(last_step_);
  double begin = 0;
  std::size_t i = 0;
  for (; i + 1 < phases.size() && step > phases[i].end; ++i) begin = phases[i].end;
  const Phase& p = phases[i];
  double fraction = p.end == begin ? 1 : (step - begin) / (p.end - begin);
  if (o_.cycle_momentum) {
    double momentum = anneal(o_.anneal_strategy, p.momentum_from, p.momentum_to, fraction);
    optimizer_->set_momentum(group, momentum);
  }
  return anneal(o_.anneal_strategy, p.lr_from, p.lr_to, fraction);
}

std::map<std::string, std::vector<double>> OneCycleLR::settings() const {
  return {{"max_lr", o_.max_lr.values},
          {"total_steps", {static_cast<double>(o_.total_steps)}},
          {"pct_start", {o_.pct_start}},
          {"linear", {o_.anneal_strategy == Anneal::linear ? 1.0 : 0.0}},
          {"cycle_momentum", {o_.cycle_momentum ? 1.0 : 0.0}},
          {"base_momentum", o_.base_momentum.values},
          {"max_momentum", o_.max_momentum.values},
          {"div_factor", {o_.div_factor}},
          {"final_div_factor", {o_.final_div_factor}},
          {"three_phase", {o_.three_phase ? 1.0 : 0.0}}};
}

void OneCycleLR::load_settings(const std::map<std::string, std::vector<double>>& values) {
  detail::Settings s{type(), values};
  OneCycleLROptions o{.max_lr = s.list("max_lr"),
                      .total_steps = s.integer("total_steps"),
                      .pct_start = s.number("pct_start"),
                      .anneal_strategy = s.number("linear") != 0 ? Anneal::linear : Anneal::cos,
                      .cycle_momentum = s.number("cycle_momentum") != 0,
                      .base_momentum = s.list("base_momentum"),
                      .max_momentum = s.list("max_momentum"),
                      .div_factor = s.number("div_factor"),
                      .final_div_factor = s.number("final_div_factor"),
                      .three_phase = s.number("three_phase") != 0};
  check(*optimizer_, o);
  o_ = std::move(o);
}

}  // namespace rondo::optim
