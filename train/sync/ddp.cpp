#include "train/sync/ddp.h"

#include "tensor/cuda_graph.h"
#include "train/sync/weights.h"

namespace rondo::train {

Tensor DdpSync::backward(const Step& step) {
  const auto count = static_cast<double>(step.batches.size());
  const double samples = samples_of(step.batches);
  ddp_.set_micro_batches(static_cast<int>(step.batches.size()));
  for (const data::Batch& batch : step.batches) {
    Tensor loss = step.loss(batch);
    if (&batch == step.batches.data()) step.zero_grad();
    // DDP divides by the number of backwards.
    loss = weighted(loss, count * static_cast<double>(batch.size()) / samples);
    const Tensor scaled = step.scaled(loss);
    ddp_.set_loss(loss);
    {
      const TimelineTrace::Span span(step.trace, "backward");
      scaled.backward();
    }
    if (!ddp_.step_is_complete()) continue;  // nothing was sent
    const dist::StepTimeline& times = ddp_.timeline();
    if (step.trace != nullptr)
      step.trace->add("wait for gradients", times.backward_end, times.synchronized);
    if (step.overlap != nullptr) step.overlap->add(times);
  }
  if (!cuda::is_capturing()) ddp_.check_loss(step.where);
  return {};
}

std::int64_t DdpSync::warm_up_steps() const {
  return ddp_.comm_hook() != nullptr ? ddp_.comm_hook()->warm_up_steps() : 0;
}

void DdpSync::begin_capture() { collectives_before_ = ddp_.communicator().collectives(); }

void DdpSync::end_capture() {
  collectives_in_graph_ = ddp_.communicator().collectives() - collectives_before_;
  ddp_.communicator().set_collectives(collectives_before_);
}

void DdpSync::replayed(const Tensor&, const std::function<std::string()>& where) {
  dist::Communicator& comm = ddp_.communicator();
  comm.set_collectives(comm.collectives() + collectives_in_graph_);
  ddp_.replayed();
  ddp_.check_loss(where);
}

nn::StateDict DdpSync::state() {
  return ddp_.comm_hook() != nullptr ? ddp_.comm_hook()->state() : nn::StateDict();
}

bool DdpSync::state_per_rank() const {
  return ddp_.comm_hook() != nullptr && !ddp_.comm_hook()->state().empty();
}

}  // namespace rondo::train
