#include "dist/data_parallel/averager.h"

#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {

namespace {

/// A dense tensor's elements in memory order.
Tensor in_memory_order(const Tensor& x) { return x.as_view({x.numel()}, {1}, x.storage_offset()); }

}  // namespace

ParameterAverager::ParameterAverager(nn::Module& model, std::shared_ptr<Communicator> comm,
                                     AveragerOptions options)
    : comm_(std::move(comm)),
      options_(std::move(options)),
      known_(model, "ParameterAverager", /*with_buffers=*/true) {
  require<CommError>(options_.every >= 1, "ParameterAverager: every is ", options_.every,
                     ", but must be at least 1");
  require<CommError>(options_.warmup_steps >= 0, "ParameterAverager: warmup_steps is ",
                     options_.warmup_steps, ", but cannot be negative");
  require<CommError>(options_.group_every >= 0, "ParameterAverager: group_every is ",
                     options_.group_every, ", but cannot be negative");
  require<CommError>(options_.group_every == 0 || options_.group != nullptr,
                     "ParameterAverager: group_every needs group, which is null");
  require<CommError>(
      options_.outer_lr > 0 && options_.outer_momentum >= 0 && options_.outer_momentum < 1,
      "ParameterAverager: outer_lr is ", options_.outer_lr, " and outer_momentum is ",
      options_.outer_momentum, "; expected outer_lr > 0 and 0 <= outer_momentum < 1");
  require<CommError>(!options_.async || (!has_outer_step() && options_.group_every == 0),
                     "ParameterAverager: an asynchronous average cannot have an outer step or "
                     "a group");
  check_same_model(model, *comm_);
  agree_on_options();
  broadcast_model(model, *comm_);
  add_parts(model.named_parameters(), true);
  add_parts(model.named_buffers(), false);
  counts_ = zeros({3}, {.dtype = i64});
}

// Ranks with different options would average in different steps, or update differently, and end
// with different models.
void ParameterAverager::agree_on_options() const {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << "every " << options_.every << " steps after " << options_.warmup_steps << " to warm up";
  if (options_.group_every > 0) text << ", in groups every " << options_.group_every;
  if (has_outer_step())
    text << ", with outer lr " << options_.outer_lr << ", momentum " << options_.outer_momentum;
  if (options_.async) text << ", asynchronously";
  comm_->agree("averages", text.str());
}

ParameterAverager::~ParameterAverager() {
  for (const Part& part : parts_) {
    try {
      part.work.wait();
    } catch (const std::exception&) {  // a later wait reports it
    }
  }
}

// Integer buffers (a count of batches) are equal on all ranks, and have no average.
void ParameterAverager::add_parts(const std::vector<nn::NamedTensor>& tensors,
                                  bool are_parameters) {
  std::map<DType, Tensors> by_dtype;
  for (const auto& named : tensors) {
    if (is_floating(named.tensor.dtype())) by_dtype[named.tensor.dtype()].push_back(named.tensor);
  }
  for (auto& [dtype, same] : by_dtype) {
    Part part{.tensors = std::move(same)};
    std::int64_t numel = 0;
    for (const Tensor& t : part.tensors) numel += t.numel();
    const Device device = part.tensors[0].device();
    const TensorOptions like{.dtype = dtype, .device = device};
    part.flat = comm_->empty({numel}, like);
    part.has_outer_step = are_parameters && has_outer_step();
    if (part.has_outer_step) {
      part.met = Tensor::empty({numel}, like);
      part.velocity = zeros({numel}, like);
      gather(part);
      part.met.copy_(part.flat);
    }
    if (options_.async) part.then = Tensor::empty({numel}, like);
    parts_.push_back(std::move(part));
  }
}

void ParameterAverager::step() {
  ++steps_;
  ++since_;
  if (since_ >= options_.every || steps_ <= options_.warmup_steps) {
    since_ = 0;
    if (!options_.async) return average(*comm_, true);
    fold_in();
    begin_average();
  } else if (options_.group_every > 0 && since_ % options_.group_every == 0) {
    average(*options_.group, false);
  }
}

void ParameterAverager::finish() {
  const bool is_due = since_ > 0 || is_under_way_;
  fold_in();
  since_ = 0;
  if (is_due) average(*comm_, true);
}

void ParameterAverager::gather(const Part& part) const {
  std::int64_t at = 0;
  for (const Tensor& t : part.tensors) {
    backend(t).copy(in_memory_order(t), part.flat.narrow(0, at, t.numel()));
    at += t.numel();
  }
}

void ParameterAverager::spread(const Part& part) const {
  std::int64_t at = 0;
  for (const Tensor& t : part.tensors) {
    backend(t).copy(part.flat.narrow(0, at, t.numel()), in_memory_order(t));
    t.bump_version();
    at += t.numel();
  }
}

void ParameterAverager::check_model() const {
  known_.check_same(comm_->rank_in_world());
  for (const Part& part : parts_)
    for (const Tensor& t : part.tensors)
      require<CommError>(t.dtype() == part.flat.dtype() && t.device() == part.flat.device(),
                         "rank ", comm_->rank_in_world(), ": a tensor of shape ", t.shape(), " is ",
                         t.dtype(), " on ", t.device(), ", but was ", part.flat.dtype(), " on ",
                         part.flat.device(),
                         " when ParameterAverager was made; make a new one after such a change");
}

void ParameterAverager::average(Communicator& comm, bool is_outer) {
  NoGradGuard no_grad;
  check_model();
  if (comm.world_size() == 1 && !(is_outer && has_outer_step())) return;
  for (const Part& part : parts_) {
    gather(part);
    comm.all_reduce(part.flat, ReduceOp::avg);
    if (is_outer && part.has_outer_step) take_outer_step(part);
    spread(part);
  }
}

void ParameterAverager::take_outer_step(const Part& part) const {
  auto number = [&](double value) {
    return scalar(value, {.dtype = part.flat.dtype(), .device = part.flat.device()});
  };
  const Tensor moved = part.met - part.flat;
  part.velocity.mul_(number(options_.outer_momentum)).add_(moved);
  part.met.add_(moved + part.velocity * number(options_.outer_momentum), -options_.outer_lr);
  part.flat.copy_(part.met);
}

void ParameterAverager::begin_average() {
  NoGradGuard no_grad;
  check_model();
  if (comm_->world_size() == 1) return;
  for (Part& part : parts_) {
    gather(part);
    part.then.copy_(part.flat);
    part.work = comm_->all_reduce_async(part.flat, ReduceOp::avg);
  }
  is_under_way_ = true;
}

void ParameterAverager::fold_in() {
  NoGradGuard no_grad;
  if (!std::exchange(is_under_way_, false)) return;
  for (Part& part : parts_) {
    std::exchange(part.work, {}).wait();
    const Tensor change = part.flat - part.then;
    gather(part);
    part.flat.add_(change);
    spread(part);
  }
}

std::vector<nn::NamedTensor> ParameterAverager::state() {
  auto* counts = counts_.data_ptr<std::int64_t>();
  counts[0] = steps_;
  counts[1] = since_;
  counts[2] = is_under_way_ ? 1 : 0;
  std::vector<nn::NamedTensor> all = {{"counts", counts_}};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    part.work.wait();
    const std::string suffix = concat(".", i);
    if (part.has_outer_step) {
      all.push_back({"met" + suffix, part.met});
      all.push_back({"velocity" + suffix, part.velocity});
    }
    if (options_.async) {
      all.push_back({"sent" + suffix, part.then});
      all.push_back({"average" + suffix, part.flat});
    }
  }
  return all;
}

void ParameterAverager::restored() {
  const auto* counts = counts_.data_ptr<std::int64_t>();
  steps_ = counts[0];
  since_ = static_cast<int>(counts[1]);
  is_under_way_ = counts[2] != 0;
}

}  // namespace rondo::dist
