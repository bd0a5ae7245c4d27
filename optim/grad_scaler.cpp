#include "optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo::optim {

GradScaler::GradScaler(Device device, GradScalerOptions options) : options_(std::move(options)) {
  const GradScalerOptions& o = options_;
  require(o.init_scale >= 1 && std::isfinite(o.init_scale), "GradScaler: init_scale is ",
          o.init_scale, ", but must be finite and at least 1");
  require(o.growth_factor > 1, "GradScaler: growth_factor is ", o.growth_factor,
          ", but must be above 1");
  require(o.backoff_factor > 0 && o.backoff_factor < 1, "GradScaler: backoff_factor is ",
          o.backoff_factor, ", but must be between 0 and 1");
  require(o.growth_interval >= 1, "GradScaler: growth_interval is ", o.growth_interval,
          ", but must be at least 1");
  scale_ = scalar(o.init_scale, {.dtype = f32, .device = device});
  tracker_ = zeros({}, {.dtype = i32, .device = device});
}

Tensor GradScaler::scale(const Tensor& loss) const {
  require<DeviceError>(loss.device() == scale_.device(), "GradScaler: the loss is on ",
                       loss.device(), ", the scaler on ", scale_.device());
  return loss.to(promote(loss.dtype(), f32)) * scale_;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  PerOptimizer& state = optimizers_[&optimizer];
  require(!state.unscaled, "GradScaler: the gradients of this ", optimizer.type(),
          " have been unscaled since the last update()");
  const NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& p : optimizer.parameters()) {
    require(
        !autograd_meta(p).is_piece || options_.max_over_ranks,
        "GradScaler: a parameter is one of ZeRO's pieces, so that each rank sees other gradients "
        "and would decide for itself whether to skip the step; set max_over_ranks");
    Tensor g = p.grad();
    if (!g.defined()) continue;
    require<DTypeError>(g.dtype() == f32 || g.dtype() == f64, "GradScaler: a gradient is ",
                        g.dtype(), "; parameters stay f32 under autocast");
    require<DeviceError>(g.device() == scale_.device(), "GradScaler: a gradient is on ", g.device(),
                         ", the scaler on ", scale_.device());
    if (!g.is_contiguous() && !g.is_contiguous(g.suggested_format())) {
      g = g.clone();
      p.set_grad(g);
    }
    g.bump_version();
    gradients.push_back(g);
  }
  if (!state.found_inf.defined()) state.found_inf = zeros({}, {.device = scale_.device()});
  state.found_inf.fill_(0);
  backend(scale_).unscale(gradients, scale_, state.found_inf);
  if (options_.max_over_ranks) options_.max_over_ranks(state.found_inf);
  state.unscaled = true;
}

void GradScaler::step(Optimizer& optimizer) {
  require(!optimizers_[&optimizer].stepped, "GradScaler: step() of this ", optimizer.type(),
          " has been called since the last update()");
  if (!optimizers_[&optimizer].unscaled) unscale_(optimizer);
  PerOptimizer& state = optimizers_[&optimizer];
  optimizer.step_unless(state.found_inf);
  state.stepped = true;
}

void GradScaler::update() {
  const NoGradGuard no_grad;
  Tensor found;
  for (auto& [optimizer, state] : optimizers_) {
    if (!state.unscaled) continue;
    found = found.defined() ? maximum(found, state.found_inf) : state.found_inf;
    state.unscaled = state.stepped = false;
  }
  require(found.defined(), "GradScaler: update() without a step() or unscale_() before it");
  const Tensor bad = ne(found, 0.0), steps = tracker_ + 1;
  const Tensor due = ge(steps, options_.growth_interval), grown = scale_ * options_.growth_factor;
  scale_.copy_(where(bad, scale_ * options_.backoff_factor,
                     where(logical_and(due, isfinite(grown)), grown, scale_)));
  tracker_.copy_(where(logical_or(bad, due), zeros_like(steps), steps));
}

void GradScaler::load_state_dict(const nn::StateDict& state) {
  const NoGradGuard no_grad;
  std::vector<Tensor> found;
  for (const nn::NamedTensor& mine : state_dict()) {
    const auto it = std::ranges::find(state, mine.name, &nn::NamedTensor::name);
    require(it != state.end(), "GradScaler.load_state_dict: the state has no ", mine.name);
    require(it->tensor.numel() == 1, "GradScaler.load_state_dict: ", mine.name, " has shape ",
            it->tensor.shape(), ", not one element");
    found.push_back(it->tensor);
  }
  const auto value = found[0].item<double>();
  require(value > 0 && std::isfinite(value), "GradScaler.load_state_dict: scale is ", value);
  scale_.fill_(value);
  tracker_.fill_(found[1].item<std::int64_t>());
}

}  // namespace rondo::optim
