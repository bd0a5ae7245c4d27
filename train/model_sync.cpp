#include "train/model_sync.h"

#include "tensor/error.h"

namespace rondo::train {

void ModelSync::check(const FitOptions& options, const nn::Module& model) {
  require(options.averaging.every > 0, "fit: averaging.every is ", options.averaging.every,
          ", but must be positive");
  const bool plain = options.sync == Sync::ddp && options.shards == 0;
  require(options.shards == 0 ||
              (options.sync == Sync::ddp && options.comm_hook.empty() && !options.graph),
          "fit: reproducible training (shards) cannot be combined with parameter averaging, a comm "
          "hook or a graph");
  require(options.shards == 0 || dynamic_cast<const nn::AnyModule*>(&model) != nullptr,
          "fit: reproducible training copies the model, so the model must be an nn::AnyModule");
  require(options.accumulate_grad_batches == 1 || (options.shards == 0 && !options.graph),
          "fit: accumulate_grad_batches cannot be combined with reproducible training or a graph; "
          "use a larger batch instead");
  require(!options.zero || (plain && options.comm_hook.empty() && !options.graph),
          "fit: zero cannot be combined with parameter averaging, a comm hook, reproducible "
          "training or a graph");
  require(!options.zero || options.amp != f16,
          "fit: zero cannot be combined with f16: each rank checks only its part of the gradients, "
          "so after an overflow only some ranks would skip the step; use bf16");
  require(!options.join || (plain && !options.graph && options.checkpoint_every == 0),
          "fit: join needs DDP without a graph, and checkpoints only at the ends of epochs: within "
          "an epoch the ranks are at different steps");
}

ModelSync::ModelSync(nn::Module& model, optim::Optimizer& optimizer,
                     const std::shared_ptr<dist::Communicator>& comm, const FitOptions& options) {
  if (options.shards > 0) {
    reproducible_.emplace(dynamic_cast<nn::AnyModule&>(model), comm,
                          dist::ReproducibleOptions{.shards = options.shards});
  } else if (options.sync == Sync::average) {
    averager_.emplace(model, comm, options.averaging);
    state_per_rank_ = true;
  } else {
    ddp_.emplace(model, comm, options.ddp);
    if (options.zero) {
      zero_.emplace(*ddp_);
      zero_->shard(optimizer);
      state_per_rank_ = true;
    } else if (!options.comm_hook.empty()) {
      ddp_->register_comm_hook(dist::make_comm_hook(options.comm_hook));
      state_per_rank_ = !ddp_->comm_hook()->state().empty();
      require(options.amp != f16 || !state_per_rank_, "fit: ", options.comm_hook,
              " keeps what it did not send, and the infinite gradients of f16 would spoil that; "
              "use bf16, or a comm hook without memory");
    }
  }
}

nn::StateDict ModelSync::state() {
  if (averager_) return averager_->state();
  return ddp_ && ddp_->comm_hook() != nullptr ? ddp_->comm_hook()->state() : nn::StateDict();
}

}  // namespace rondo::train
