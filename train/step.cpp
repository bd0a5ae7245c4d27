#include "train/step.h"

#include <algorithm>
#include <set>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "tensor/cuda.h"
#include "tensor/error.h"
#include "train/evaluate.h"

namespace rondo::train {
namespace {

/// The number of steps without a graph before a capture.
constexpr std::int64_t warm_up = 3;

/// The model's parameters that are not the optimizer's. ZeRO's pieces of a parameter belong to it.
Tensors parameters_without(const optim::Optimizer& optimizer, nn::Module& model) {
  std::set<const TensorImpl*> trained;
  for (const Tensor& parameter : optimizer.parameters()) {
    trained.insert(&parameter.impl());
    trained.insert(parameter.impl().constant_base.lock().get());
  }
  Tensors others;
  for (const Tensor& parameter : model.parameters())
    if (!trained.contains(&parameter.impl())) others.push_back(parameter);
  return others;
}

}  // namespace

TrainStep::TrainStep(TrainStepOptions options)
    : options_(std::move(options)),
      own_sync_(options_.sync == nullptr ? make_sync(options_.ddp, options_.rank) : nullptr),
      sync_(options_.sync != nullptr ? options_.sync : own_sync_.get()),
      untrained_(parameters_without(options_.optimizer, options_.model)) {
  require(options_.ddp == nullptr || options_.sync == nullptr,
          "TrainStep: ddp and sync cannot be combined");
  if (!options_.criterion) options_.criterion = default_criterion;
  if (options_.observe) {
    options_.criterion = [criterion = options_.criterion, observe = options_.observe](
                             const Tensor& y, const Tensor& target) {
      const Tensor loss = criterion(y, target);  // first: it names targets that do not match
      const NoGradGuard no_grad;
      observe(y.detach(), target);
      return loss;
    };
  }
  if (!options_.graph) return;
  for (const auto& [name, parameter] : options_.model.named_parameters())
    require<DeviceError>(parameter.device().is_cuda(),
                         "TrainStep: a graph is captured on a GPU, but ", name, " is on ",
                         parameter.device());
}

void TrainStep::operator()(std::span<const data::Batch> batches,
                           const std::function<std::string()>& where) {
  require(!batches.empty(), "TrainStep: the step has no batch");
  const data::Batch& batch = batches[0];
  require(batches.size() == 1 || !options_.graph,
          "TrainStep: gradients of several batches cannot be combined with a graph");
  if (options_.graph && !graph_) {
    if (batch.input.shape() != warm_shape_) steps_before_graph_ = 0;
    warm_shape_ = batch.input.shape();
    if (steps_before_graph_++ >= warm_up_steps()) capture(batch);
  }
  if (!fits_graph(batch)) {
    run(batches, where);
  } else {
    options_.optimizer.require_valid_rates();
    NoGradGuard no_grad;
    input_.copy_(batch.input);
    target_.copy_(batch.target);
    graph_->replay();
    sync_->replayed(graph_loss_, where);
  }
  sync_->after_step();  // not captured: an average is not due in every step
}

std::int64_t TrainStep::warm_up_steps() const { return std::max(warm_up, sync_->warm_up_steps()); }

Tensor TrainStep::run(std::span<const data::Batch> batches,
                      const std::function<std::string()>& where) {
  const Tensor loss = sync_->backward(
      {.batches = batches,
       .loss =
           [this](const data::Batch& batch) {
             const TimelineTrace::Span span(options_.trace, "forward");
             const AutocastIf amp(batch.input.device(), options_.amp);
             return options_.criterion(options_.model(batch.input), batch.target);
           },
       .scaled =
           [this](const Tensor& mean) {
             return options_.scaler != nullptr ? options_.scaler->scale(mean) : mean;
           },
       .zero_grad =
           [this] {
             options_.optimizer.zero_grad();
             for (const Tensor& parameter : untrained_) parameter.zero_grad();
           },
       .where = where,
       .criterion = options_.criterion,
       .amp = options_.amp,
       .trace = options_.trace,
       .overlap = options_.overlap});
  optimize();
  return loss;
}

void TrainStep::update() {
  optimize();
  sync_->after_step();
}

void TrainStep::optimize() {
  const TimelineTrace::Span span(options_.trace, "optimizer");
  if (options_.max_grad_norm > 0) {
    if (options_.scaler != nullptr) options_.scaler->unscale_(options_.optimizer);
    const Tensor norm =
        sync_->clip_grad_norm(options_.optimizer.parameters(), options_.max_grad_norm);
    if (options_.observe_norm) options_.observe_norm(norm);
  }
  if (options_.scaler == nullptr) {
    options_.optimizer.step();
  } else {
    options_.scaler->step(options_.optimizer);
    options_.scaler->update();
  }
}

bool TrainStep::fits_graph(const data::Batch& batch) const {
  return graph_ && batch.input.shape() == input_.shape() && batch.input.dtype() == input_.dtype() &&
         batch.target.shape() == target_.shape();
}

void TrainStep::capture(const data::Batch& batch) {
  NoGradGuard no_grad;
  input_ = batch.input.clone();
  target_ = batch.target.clone();
  cuda::empty_cache(batch.input.device().index);  // the graph has memory of its own
  graph_.emplace(batch.input.device());
  const GradModeGuard grad(true);
  sync_->begin_capture();
  const data::Batch held{input_, target_};
  try {
    graph_->capture([&] { graph_loss_ = run(std::span(&held, 1), {}); });
  } catch (...) {  // the next step captures again
    graph_.reset();
    sync_->end_capture();
    throw;
  }
  sync_->end_capture();
}

std::vector<double> TrainStep::take_losses(bool wait) { return sync_->take_losses(wait); }

}  // namespace rondo::train
