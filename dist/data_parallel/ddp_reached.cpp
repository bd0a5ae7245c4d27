// Which parameters a backward of DDP reaches. Two checks: parameters that a backward does not reach
// are handled, and every backward reaches some parameter.

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "dist/data_parallel/ddp.h"
#include "tensor/error.h"

namespace rondo::dist {

// If a loss depends on no parameter, no hook is called in its backward. This rank would then be one
// all-reduce behind the others forever. Therefore it counts such backwards, and the count is sent
// with the gradients. If all ranks have replaced all parameters, no count is ever sent: therefore
// the parameters are checked here, too.
void DistributedDataParallel::expect_backward() {
  settle();
  if (!GradMode::is_enabled() || !sync_) return;
  known_.check_same(comm_->rank_in_world());
  if (expects_backward_ && backwards_run() > backwards_before_) ++missed_;
  if (!expects_backward_ || backwards_run() > backwards_before_) {
    expects_backward_ = true;
    backwards_before_ = backwards_run();
  }
}

// A parameter that backward does not reach contributes 0, unless an earlier micro-batch reached it.
void DistributedDataParallel::leave_out(std::size_t parameter) {
  NoGradGuard no_grad;
  const auto& [name, tensor] = parameters_[parameter];
  if (!tensor.grad().defined()) {
    slots_[parameter].zero_();
  } else {
    require<CommError>(
        tensor.grad().data_ptr() == slots_[parameter].data_ptr(), "rank ", comm_->rank_in_world(),
        ": the gradient of ", name,
        ", which backward did not reach, is not in its bucket (set_grad, backward with "
        "create_graph, a change of dtype or device, or a second wrapper)");
  }
  --buckets_[bucket_of_[parameter]].pending;
}

void DistributedDataParallel::fill_in_unused() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_ready_[i]) leave_out(i);
  }
  if (!options_.static_graph) return;
  reached_ = is_ready_;
  reached_by_any_ = used_;
  // The buckets of these parameters will be launched without waiting for them. If such a gradient
  // comes nevertheless, which is an error, it must not be written into the bucket meanwhile.
  for (std::size_t i = 0; i < reached_by_any_.size(); ++i) {
    if (!reached_by_any_[i]) set_grad_slot(parameters_[i].tensor, Tensor());
  }
}

void DistributedDataParallel::check_static_graph() {
  for (std::size_t i = 0; i < reached_.size(); ++i)
    require<CommError>((is_ready_[i] || !reached_[i]) && (used_[i] || !reached_by_any_[i]), "rank ",
                       comm_->rank_in_world(), ": backward did not reach ", parameters_[i].name,
                       ", which the first step of this static graph did");
}

// A parameter that no rank uses has no gradient, and the optimizer does not change it.
void DistributedDataParallel::agree_on_unused() {
  std::vector<int> is_used = used_anywhere_;
  if (is_used.empty()) is_used = used_by_any_rank();
  if (options_.static_graph) used_anywhere_ = is_used;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    if (is_used[i] != 0 && !p.grad().defined()) p.set_grad(slots_[i]);
  }
}

std::vector<int> DistributedDataParallel::used_by_any_rank() const {
  const Tensor used = Tensor::empty({std::ssize(parameters_)}, {.dtype = u8});
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    used.data_ptr<std::uint8_t>()[i] = parameters_[i].tensor.grad().defined() ? 1 : 0;
  const Tensor anywhere = used.to(slots_[0].device());
  comm_->all_reduce(anywhere, ReduceOp::max);
  return anywhere.to_vector<int>();
}

std::vector<std::string> DistributedDataParallel::unused_parameters() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_ready_[i]) names.push_back(parameters_[i].name);
  }
  return names;
}

std::string DistributedDataParallel::text_of_unused() const {
  const std::vector<std::string> names = unused_parameters();
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 5); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  return names.size() > 5 ? concat(text, " and ", names.size() - 5, " more") : text;
}

}  // namespace rondo::dist
