#include "optim/sgd.h"

#include <algorithm>
#include <cmath>

#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo::optim {
namespace {

SgdOptions checked(const SgdOptions& o) {
  detail::require_nonnegative("SGD", "lr", o.lr);
  detail::require_nonnegative("SGD", "momentum", o.momentum);
  detail::require_nonnegative("SGD", "weight_decay", o.weight_decay);
  require(std::isfinite(o.dampening), "SGD: dampening is ", o.dampening, ", but must be finite");
  require(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
          "SGD: nesterov needs momentum above 0 and dampening 0, not ", o.momentum, " and ",
          o.dampening);
  return o;
}

}  // namespace

SGD::SGD(Tensors params, SgdOptions options)
    : SGD(std::vector<ParamGroup<SgdOptions>>{{std::move(params), options}}) {}

SGD::SGD(const std::vector<ParamGroup<SgdOptions>>& groups)
    : Optimizer(detail::params_of(groups), detail::lrs_of(groups), {{.name = "momentum_buffer"}}) {
  for (const auto& group : groups) options_.push_back(checked(group.options));
}

void SGD::add_param_group(ParamGroup<SgdOptions> group) {
  const SgdOptions options = checked(group.options);
  add_group(std::move(group.params), options.lr);
  options_.push_back(options);
}

void SGD::set_momentum(std::size_t group, double momentum) {
  detail::require_nonnegative("SGD", "momentum", momentum);
  options_.at(group).momentum = momentum;
  write_rates(group);
}

void SGD::update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) {
  const SgdOptions& o = options_[group];
  // If the first step may be skipped (found_inf is given), it must not count as the first. With a
  // buffer of zeros, the first step is like any other, except with dampening, which the first step
  // does not apply: then the host must wait for found_inf.
  const bool may_be_left_out = found_inf.defined(),
             from_zeros = may_be_left_out && o.dampening == 0;
  const bool makes_buffers = std::ranges::any_of(
      updates, [&](const Update& u) { return o.momentum != 0 && !u.state[0].defined(); });
  if (makes_buffers && may_be_left_out && !from_zeros && found_inf.item<float>() != 0) return;
  SgdParams params{.dampening = o.dampening,
                   .weight_decay = o.weight_decay,
                   .nesterov = o.nesterov,
                   .maximize = o.maximize,
                   .first_step = false};
  std::vector<SgdTensors> first, later;  // `first` writes the momentum buffer; `later` also reads
                                         // it
  Tensors buffers;
  for (Update& u : updates) {
    bool is_first = o.momentum != 0 && !u.state[0].defined();
    Tensor& buffer = buffers.emplace_back(o.momentum != 0 ? u.state[0] : Tensor());
    if (is_first) buffer = from_zeros ? zeros_like(u.p) : Tensor::empty_like(u.p);
    is_first = is_first && !from_zeros;
    (is_first ? first : later).push_back({u.p, u.g, buffer});
  }
  const Tensor current_rates = rates(group);
  Backend& device = backend(updates[0].p);
  if (!later.empty()) device.sgd_steps(later, current_rates, params, found_inf);
  params.first_step = true;
  if (!first.empty()) device.sgd_steps(first, current_rates, params, found_inf);
  // A step that finds no memory for one of the buffers keeps none of them.
  if (o.momentum != 0)
    for (std::size_t i = 0; i < updates.size(); ++i) updates[i].state[0] = buffers[i];
}

std::map<std::string, double> SGD::options(std::size_t group) const {
  const SgdOptions& o = options_[group];
  return {{"momentum", o.momentum},
          {"dampening", o.dampening},
          {"weight_decay", o.weight_decay},
          {"nesterov", o.nesterov ? 1.0 : 0.0},
          {"maximize", o.maximize ? 1.0 : 0.0}};
}

void SGD::set_options(std::size_t group, const std::map<std::string, double>& values) {
  auto get = [&](const char* key) { return detail::option("SGD", values, key); };
  options_[group] = checked({.lr = options_[group].lr,
                             .momentum = get("momentum"),
                             .dampening = get("dampening"),
                             .weight_decay = get("weight_decay"),
                             .nesterov = get("nesterov") != 0,
                             .maximize = get("maximize") != 0});
}

}  // namespace rondo::optim
