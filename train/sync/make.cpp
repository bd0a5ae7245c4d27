// Which strategy a run uses.

#include "dist/data_parallel/comm_hook.h"
#include "tensor/error.h"
#include "train/fit.h"
#include "train/gradient_sync.h"
#include "train/sync/ddp.h"
#include "train/sync/strategies.h"

namespace rondo::train {

void check_sync_options(const FitOptions& options, const nn::Module& model) {
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

std::unique_ptr<GradientSync> make_sync(dist::DistributedDataParallel* ddp, int rank) {
  if (ddp == nullptr) return no_sync(rank);
  return std::make_unique<DdpSync>(*ddp);
}

std::unique_ptr<GradientSync> make_sync(nn::Module& model, optim::Optimizer& optimizer,
                                        const std::shared_ptr<dist::Communicator>& comm,
                                        const FitOptions& options) {
  if (options.shards > 0)
    return reproducible_sync(dynamic_cast<nn::AnyModule&>(model), comm, options.shards);
  if (options.sync == Sync::average) return averaging_sync(model, comm, options.averaging);
  if (options.zero) return zero_sync(model, optimizer, comm, options.ddp);
  auto sync = std::make_unique<DdpSync>(model, comm, options.ddp);
  if (!options.comm_hook.empty()) {
    sync->ddp().register_comm_hook(dist::make_comm_hook(options.comm_hook));
    require(options.amp != f16 || !sync->state_per_rank(), "fit: ", options.comm_hook,
            " keeps what it did not send, and the infinite gradients of f16 would spoil that; "
            "use bf16, or a comm hook without memory");
  }
  return sync;
}

}  // namespace rondo::train
