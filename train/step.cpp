#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "tensor/cuda.h"
#include "tensor/error.h"

namespace rondo::train {
namespace {

// The first steps make plans, load kernels, allocate optimizer states and open connections, which
// cannot be captured.
constexpr std::int64_t warm_up = 3;
constexpr std::size_t most_on_the_way = 16;

}  // namespace

TrainStep::TrainStep(TrainStepOptions options) : options_(std::move(options)) {
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
  require(batches.size() == 1 || (options_.reproducible == nullptr && !options_.graph),
          "TrainStep: several batches per step cannot be combined with reproducible training or a "
          "graph");
  if (options_.reproducible != nullptr) return run_reproducibly(batch, where);
  if (options_.graph && !graph_) {
    if (batch.input.shape() != warm_shape_) steps_before_graph_ = 0;
    warm_shape_ = batch.input.shape();
    if (steps_before_graph_++ >= warm_up_steps()) capture(batch);
  }
  if (fits_graph(batch)) {
    NoGradGuard no_grad;
    input_.copy_(batch.input);
    target_.copy_(batch.target);
    graph_->replay();
    if (options_.ddp != nullptr) {
      dist::Communicator& comm = options_.ddp->communicator();
      comm.set_collectives(comm.collectives() + collectives_in_graph_);
      options_.ddp->replayed();
      options_.ddp->check_loss(where);
    } else {
      arriving_.emplace_back(graph_loss_);
      check_losses(where, false);
    }
    return;
  }
  run(batches, where);
}

std::uint64_t TrainStep::collectives() const {
  return options_.ddp != nullptr ? options_.ddp->communicator().collectives() : 0;
}

std::int64_t TrainStep::warm_up_steps() const {
  const bool hooked = options_.ddp != nullptr && options_.ddp->comm_hook() != nullptr;
  return std::max(warm_up, hooked ? options_.ddp->comm_hook()->warm_up_steps() : 0);
}

void TrainStep::run_reproducibly(const data::Batch& batch,
                                 const std::function<std::string()>& where) {
  options_.optimizer.zero_grad();
  {
    const TimelineTrace::Span span(options_.trace, "shards");
    const AutocastIf amp(batch.input.device(), options_.amp);
    losses_.push_back(
        options_.reproducible->backward(batch.input, batch.target, options_.criterion));
  }
  const auto& losses = options_.reproducible->losses();
  for (std::size_t shard = 0; shard < losses.size(); ++shard) {
    if (!std::isfinite(losses[shard]))
      throw Error(concat(dist::loss_is(losses[shard]), " on shard ", shard, where ? where() : ""));
  }
  options_.optimizer.step();
}

Tensor TrainStep::forward(const data::Batch& batch) const {
  const TimelineTrace::Span span(options_.trace, "forward");
  const AutocastIf amp(batch.input.device(), options_.amp);
  const Tensor output = options_.model(batch.input);
  return options_.criterion ? options_.criterion(output, batch.target)
                            : cross_entropy(output, batch.target);
}

void TrainStep::backward_with_ddp(const Tensor& loss, const Tensor& scaled) {
  options_.ddp->set_loss(loss);
  {
    const TimelineTrace::Span span(options_.trace, "backward");
    scaled.backward();
  }
  if (!options_.ddp->step_is_complete()) return;  // nothing has been sent yet
  const dist::StepTimeline& times = options_.ddp->timeline();
  if (options_.trace != nullptr)
    options_.trace->add("wait for gradients", times.backward_end, times.synchronized);
  if (options_.overlap != nullptr) options_.overlap->add(times);
}

void TrainStep::run(std::span<const data::Batch> batches,
                    const std::function<std::string()>& where) {
  const bool capturing = cuda::is_capturing();
  const auto count = static_cast<double>(batches.size());
  double samples = 0;
  for (const data::Batch& batch : batches) samples += static_cast<double>(batch.size());
  // DDP itself divides by the number of backward passes.
  if (options_.ddp != nullptr) options_.ddp->accumulate(static_cast<int>(batches.size()));
  const double parts = options_.ddp != nullptr ? count : 1;
  loss_ = {};
  for (const data::Batch& batch : batches) {
    Tensor loss = forward(batch);
    if (&batch == batches.data()) options_.optimizer.zero_grad();
    const double weight = parts * static_cast<double>(batch.size()) / samples;
    if (weight != 1) loss = loss * weight;
    const Tensor scaled = options_.scaler != nullptr ? options_.scaler->scale(loss) : loss;
    if (options_.ddp != nullptr) {
      backward_with_ddp(loss, scaled);
      continue;
    }
    loss_ = loss_.defined() ? loss_ + loss.detach() : loss.detach();
    const TimelineTrace::Span span(options_.trace, "backward");
    scaled.backward();
  }
  if (options_.ddp != nullptr) {
    if (!capturing) options_.ddp->check_loss(where);
  } else if (!capturing) {
    arriving_.emplace_back(loss_);
    check_losses(where, false);
  }
  update();
}

void TrainStep::update() {
  const TimelineTrace::Span span(options_.trace, "optimizer");
  if (options_.scaler == nullptr) {
    options_.optimizer.step();
  } else {
    options_.scaler->step(options_.optimizer);
    options_.scaler->update();
  }
  if (options_.zero != nullptr) options_.zero->gather();
}

bool TrainStep::fits_graph(const data::Batch& batch) const {
  return graph_ && batch.input.shape() == input_.shape() && batch.input.dtype() == input_.dtype() &&
         batch.target.shape() == target_.shape();
}

void TrainStep::capture(const data::Batch& batch) {
  NoGradGuard no_grad;
  input_ = batch.input.clone();
  target_ = batch.target.clone();
  cuda::empty_cache(batch.input.device().index);  // the graph has its own memory
  graph_.emplace(batch.input.device());
  const GradModeGuard grad(true);
  const std::uint64_t before = collectives();
  const data::Batch held{input_, target_};
  graph_->capture([&] { run(std::span(&held, 1), {}); });
  collectives_in_graph_ = collectives() - before;
  if (options_.ddp != nullptr) options_.ddp->communicator().set_collectives(before);
  graph_loss_ = loss_;
}

void TrainStep::check_losses(const std::function<std::string()>& where, bool wait) {
  while (!arriving_.empty() &&
         (wait || arriving_.front().is_ready() || arriving_.size() > most_on_the_way)) {
    const auto value = arriving_.front().get().item<double>();
    arriving_.pop_front();
    losses_.push_back(value);
    if (!std::isfinite(value))
      throw Error(concat(dist::loss_is(value), " on rank ", options_.rank, where ? where() : ""));
  }
}

std::vector<double> TrainStep::take_losses(bool wait) {
  if (options_.ddp != nullptr) return options_.ddp->take_mean_losses(wait);
  check_losses({}, wait);
  return std::exchange(losses_, {});
}

}  // namespace rondo::train
