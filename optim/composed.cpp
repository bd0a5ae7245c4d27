#include "optim/composed.h"

#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"

namespace rondo::optim {

void NamedOption::check(const char* type, double number) const {
  const auto& [low, high, is_open] = range;
  const bool is_valid = std::isfinite(number) && number >= low &&
                        (is_open ? number < high : number <= high) &&
                        (!is_integer || std::trunc(number) == number);
  if (is_valid) return;
  std::string valid = is_integer ? "an integer" : "finite";
  if (std::isfinite(high)) {
    valid = concat(is_integer ? "an integer in [" : "in [", low, ", ", high, is_open ? ")" : "]");
  } else if (low == 0) {
    valid += " and not negative";
  }
  throw Error(concat(type, ": ", name, " is ", number, ", but must be ", valid));
}

ComposedOptimizer::ComposedOptimizer(const char* type, std::vector<Tensors> groups,
                                     const std::vector<double>& lrs,
                                     std::vector<StateEntry> entries, Updates updates)
    : Optimizer(std::move(groups), lrs, entries, updates),
      type_(type),
      counts_steps_(!entries.empty() && entries[0].name == "step") {}

Tensor ComposedOptimizer::with_decay(const Parameter& x, double weight_decay) {
  return weight_decay == 0 ? x.g : add(x.g, x.p, weight_decay);
}

void ComposedOptimizer::decay(const Parameter& x, double weight_decay) {
  if (weight_decay != 0) x.p.mul_(1.0 - x.lr * weight_decay);
}

void ComposedOptimizer::lerp_(const Tensor& average, const Tensor& x, double weight) {
  average.add_(x - average, weight);
}

void ComposedOptimizer::lerp_(const Tensor& average, const Tensor& x, const Tensor& weight) {
  average.add_(weight * (x - average));
}

void ComposedOptimizer::average_square_(const Tensor& average, const Tensor& x, double weight) {
  average.mul_(1 - weight).add_(x * weight * x);  // x² alone may be infinite, inf - inf is NaN
}

Tensor ComposedOptimizer::bias_correction(const Parameter& x, double beta) {
  return bias_correction(x, full_like(x.step(), beta));
}

Tensor ComposedOptimizer::bias_correction(const Parameter& x, const Tensor& beta) {
  return 1.0 - pow(beta, x.step());
}

void ComposedOptimizer::check_options(std::size_t group, double lr) {
  detail::require_nonnegative(type_, "lr", lr);
  for (const NamedOption& option : named(group)) option.check(type_, option.get());
}

void ComposedOptimizer::update(std::size_t group, std::vector<Update>& updates,
                               const Tensor& found_inf) {
  const NoGradGuard no_grad;
  const Tensor lr_now = rates(group).select(0, 0), momentum_now = rates(group).select(0, 1);
  const Tensor is_skipped = found_inf.defined() ? ne(found_inf, 0.0) : Tensor();
  for (Update& u : updates) {
    Parameter x{.p = u.p, .g = u.g, .lr = lr_now, .momentum = momentum_now, .state = {}};
    x.state = [&](std::size_t entry) -> const Tensor& {
      Tensor& s = u.state[entry];
      if (!s.defined()) s = make_state(group, u.index, entry);
      if (s.device() != u.p.device()) s = s.to(u.p.device());
      return s;
    };
    if (counts_steps_) x.step();
    // If the step may have to be skipped, all values are computed and then put back.
    const auto values_now = [&] {
      Tensors values{u.p};
      for (std::size_t k = 0; k < u.state.size(); ++k) values.push_back(u.state[k]);
      return values;
    };
    Tensors before;
    if (is_skipped.defined()) {
      for (const Tensor& v : values_now()) before.push_back(v.defined() ? v.clone() : v);
    }
    if (counts_steps_) x.step() += 1.0;
    update_parameter(group, x);
    if (!is_skipped.defined()) continue;
    const Tensors after = values_now();
    for (std::size_t k = 0; k < after.size(); ++k) {
      if (!after[k].defined()) continue;
      if (!before[k].defined()) before[k] = make_state(group, u.index, k - 1);
      after[k].copy_(where(is_skipped, before[k], after[k]));
    }
  }
}

Tensor ComposedOptimizer::make_state(std::size_t group, std::size_t index, std::size_t entry) {
  const Tensor s = Optimizer::make_state(group, index, entry);
  if (const double value = initial_value(group, entry); value != 0) s.fill_(value);
  return s;
}

std::vector<NamedOption> ComposedOptimizer::named_of(std::size_t group) const {
  return const_cast<ComposedOptimizer*>(this)->named(group);  // only to read them
}

std::optional<NamedOption> ComposedOptimizer::momentum_option(std::size_t group) const {
  for (const NamedOption& option : named_of(group)) {
    if (option.name == "momentum" || option.name == "beta1") return option;
  }
  return {};
}

double ComposedOptimizer::momentum(std::size_t group) const {
  const auto option = momentum_option(group);
  return option ? option->get() : 0;
}

void ComposedOptimizer::set_momentum(std::size_t group, double momentum) {
  const auto option = momentum_option(group);
  require(option.has_value(), type_, ".set_momentum: ", type_,
          " has no momentum; schedules that cycle the momentum need cycle_momentum = false");
  option->check(type_, momentum);
  option->set(momentum);
  write_rates(group);
}

std::map<std::string, double> ComposedOptimizer::options(std::size_t group) const {
  std::map<std::string, double> values;
  for (const NamedOption& option : named_of(group)) values[option.name] = option.get();
  return values;
}

void ComposedOptimizer::set_options(std::size_t group,
                                    const std::map<std::string, double>& values) {
  const std::vector<NamedOption> all = named(group);
  for (const NamedOption& o : all) o.check(type_, detail::option(type_, values, o.name.c_str()));
  for (const NamedOption& o : all) o.set(values.at(o.name));
}

}  // namespace rondo::optim
