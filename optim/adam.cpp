#include "optim/adam.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo::optim {
namespace {

void check_beta(const char* type, const char* name, double beta) {
  require(beta >= 0 && beta < 1, type, ": ", name, " is ", beta, ", but must be in [0, 1)");
}

AdamOptions checked(const char* type, const AdamOptions& o) {
  detail::require_nonnegative(type, "lr", o.lr);
  detail::require_nonnegative(type, "eps", o.eps);
  detail::require_nonnegative(type, "weight_decay", o.weight_decay);
  check_beta(type, "betas[0]", o.betas[0]);
  check_beta(type, "betas[1]", o.betas[1]);
  return o;
}

AdamOptions widen(const AdamWOptions& o) {
  return {.lr = o.lr,
          .betas = o.betas,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .amsgrad = o.amsgrad,
          .maximize = o.maximize};
}

std::vector<ParamGroup<AdamOptions>> widen(std::vector<ParamGroup<AdamWOptions>> groups) {
  std::vector<ParamGroup<AdamOptions>> result;
  for (auto& group : groups) result.push_back({std::move(group.params), widen(group.options)});
  return result;
}

}  // namespace

Adam::Adam(Tensors params, AdamOptions options) : AdamBase(false, {{std::move(params), options}}) {}
Adam::Adam(const std::vector<ParamGroup<AdamOptions>>& groups) : AdamBase(false, groups) {}
AdamW::AdamW(Tensors params, AdamWOptions options)
    : AdamBase(true, {{std::move(params), widen(options)}}) {}
AdamW::AdamW(std::vector<ParamGroup<AdamWOptions>> groups)
    : AdamBase(true, widen(std::move(groups))) {}

AdamBase::AdamBase(bool decoupled, const std::vector<ParamGroup<AdamOptions>>& groups)
    : Optimizer(detail::params_of(groups), detail::lrs_of(groups),
                {{"step", StateEntry::scalar},
                 {"exp_avg"},
                 {"exp_avg_sq"},
                 {"max_exp_avg_sq", StateEntry::like_parameter, true}}),
      decoupled_(decoupled),
      steps_(groups.size()) {
  for (const auto& group : groups) options_.push_back(checked(type(), group.options));
}

void AdamBase::add(ParamGroup<AdamOptions> group) {
  const AdamOptions options = checked(type(), group.options);
  add_group(std::move(group.params), options.lr);
  options_.push_back(options);
  steps_.emplace_back();
}

void AdamW::add_param_group(ParamGroup<AdamWOptions> group) {
  add({std::move(group.params), widen(group.options)});
}

void AdamBase::set_momentum(std::size_t group, double beta1) {
  check_beta(type(), "betas[0]", beta1);
  options_.at(group).betas[0] = beta1;
  write_rates(group);
}

Tensor AdamBase::step_of(std::size_t group, std::size_t index) {
  const Tensors& p = params(group);
  if (!steps_[group].defined()) {
    steps_[group] =
        zeros({static_cast<std::int64_t>(p.size())}, {.dtype = f64, .device = p[0].device()});
  }
  if (steps_[group].device() != p[0].device()) steps_[group] = steps_[group].to(p[0].device());
  return steps_[group].as_view({}, {}, static_cast<std::int64_t>(index));
}

Tensor AdamBase::make_state(std::size_t group, std::size_t index, std::size_t entry) {
  return entry == kStep ? step_of(group, index) : Optimizer::make_state(group, index, entry);
}

/// Adds `steps` to the counts of the parameters that have gradients; 0 if found_inf.
void AdamBase::count(std::size_t group, const std::vector<Update>& updates, const Tensor& found_inf,
                     double steps) {
  const NoGradGuard no_grad;
  const Tensor one = found_inf.defined() ? (1.0 - found_inf).to(f64) : Tensor();
  auto add = [&](const Tensor& t) {
    if (one.defined())
      t.add_(one, steps);
    else
      backend(t).unary(UnaryOp::add_scalar, t, t, {.alpha = steps});
  };
  if (updates.size() == params(group).size()) return add(steps_[group]);
  for (const Update& u : updates) add(step_of(group, u.index));
}

void AdamBase::update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) {
  const AdamOptions& o = options_[group];
  const std::size_t entries = o.amsgrad ? 4 : 3;
  std::vector<AdamTensors> all;
  for (Update& u : updates) {
    for (std::size_t k = 0; k < entries; ++k) {
      if (!u.state[k].defined()) u.state[k] = make_state(group, u.index, k);
    }
    u.state[kStep] = step_of(group, u.index);  // the step counts may have moved
    all.push_back({u.p, u.g, u.state[kM], u.state[kV], o.amsgrad ? u.state[kMaxV] : Tensor(),
                   u.state[kStep]});
  }
  const Tensor current_rates = rates(group);
  count(group, updates, found_inf, 1);
  try {
    backend(updates[0].p)
        .adam_steps(all, current_rates,
                    {.beta2 = o.betas[1],
                     .eps = o.eps,
                     .weight_decay = o.weight_decay,
                     .decoupled = decoupled_,
                     .maximize = o.maximize},
                    found_inf);
  } catch (const Error&) {  // such as a GPU without memory: the step may be repeated
    count(group, updates, found_inf, -1);
    throw;
  }
}

std::map<std::string, double> AdamBase::options(std::size_t group) const {
  const AdamOptions& o = options_[group];
  return {{"beta1", o.betas[0]},
          {"beta2", o.betas[1]},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"amsgrad", o.amsgrad ? 1.0 : 0.0},
          {"maximize", o.maximize ? 1.0 : 0.0}};
}

void AdamBase::set_options(std::size_t group, const std::map<std::string, double>& values) {
  auto get = [&](const char* key) { return detail::option(type(), values, key); };
  options_[group] = checked(type(), {.lr = options_[group].lr,
                                     .betas = {get("beta1"), get("beta2")},
                                     .eps = get("eps"),
                                     .weight_decay = get("weight_decay"),
                                     .amsgrad = get("amsgrad") != 0,
                                     .maximize = get("maximize") != 0});
}

}  // namespace rondo::optim
