#include "train/model_sync.h"

#include "tensor/error.h"

namespace rondo::train {

void ModelSync::check(const FitOptions& options, const nn::Module& model) {
  require(options.averaging.every > 0, "fit: averaging.every is ", options.averaging.every,
          ", but must be positive");
  const bool plain = options.sync == Sync::ddp && options.shards == 0;
  require(options.shards == 0 ||
              (options.sync == Sync::ddp && options.comm_hook.empty() && !options.graph),
          "fit: reproducible training goes with gradients that are averaged as they are: no "
          "averaging of parameters, no comm hook, no graph");
  require(options.shards == 0 || dynamic_cast<const nn::AnyModule*>(&model) != nullptr,
          "fit: reproducible training makes copies of the model, which must be an nn::AnyModule");
  require(options.accumulate_grad_batches == 1 || (options.shards == 0 && !options.graph),
          "fit: accumulate_grad_batches adds up gradients neither in reproducible training nor in "
          "a graph; there a larger batch does the same");
  require(!options.zero || (plain && options.comm_hook.empty() && !options.graph),
          "fit: zero shares out the optimizer's state over ranks that average gradients as they "
          "are: no averaging of parameters, no comm hook, no shards of reproducible training, no "
          "graph");
  require(!options.zero || options.amp != f16,
          "fit: with zero each rank looks at its part of the gradients only, and f16's infinite "
          "ones would make some ranks step and others not; use bf16");
  require(!options.join || (plain && !options.graph && options.checkpoint_every == 0),
          "fit: join is for DDP's gradients, without a graph, and with checkpoints at the ends of "
          "epochs only: in between the ranks are not at the same step");
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
              " remembers what it did not send, which f16's infinite gradients would spoil; use "
              "bf16, or a comm hook without a memory");
    }
  }
}

nn::StateDict ModelSync::state() {
  if (averager_) return averager_->state();
  return ddp_ && ddp_->comm_hook() != nullptr ? ddp_->comm_hook()->state() : nn::StateDict();
}

}  // namespace rondo::train
