#pragma once
// ModelSync: what keeps the ranks' models together while train::fit trains: DDP, with a comm hook
// or ZeRO's shards; shards of the batch that give the same bits on any number of ranks; or averages
// of parameters. One of them is there, as FitOptions say.

#include <memory>
#include <optional>

#include "dist/data_parallel/averager.h"
#include "dist/data_parallel/ddp.h"
#include "dist/data_parallel/reproducible.h"
#include "dist/data_parallel/zero.h"
#include "train/fit.h"

namespace rondo::train {

class ModelSync {
 public:
  /// Gives every rank rank 0's model, and with FitOptions::zero the optimizer this rank's pieces of
  /// the parameters. Throws Error for options that do not go together, on all ranks alike.
  /// Collective.
  ModelSync(nn::Module& model, optim::Optimizer& optimizer,
            const std::shared_ptr<dist::Communicator>& comm, const FitOptions& options);
  /// Throws Error for options that no model can be trained with, before anything is done.
  static void check(const FitOptions& options, const nn::Module& model);

  // Null where there is none.
  dist::DistributedDataParallel* ddp() { return ddp_ ? &*ddp_ : nullptr; }
  dist::ZeroSharding* zero() { return zero_ ? &*zero_ : nullptr; }
  dist::ReproducibleDataParallel* reproducible() {
    return reproducible_ ? &*reproducible_ : nullptr;
  }
  dist::ParameterAverager* averager() { return averager_ ? &*averager_ : nullptr; }

  /// Whether ranks have weights, optimizer states or memories of their own, which checkpoints keep.
  bool state_per_rank() const { return state_per_rank_; }
  /// What communication must remember (train/run_state.h); shares memory with it.
  nn::StateDict state();
  /// Whether a step's loss is the mean over the ranks already.
  bool averages_losses() const { return !averager_; }
  /// As is due before an evaluation or a checkpoint. Collective.
  void broadcast_buffers() {
    if (ddp_) ddp_->broadcast_buffers();
  }

 private:
  std::optional<dist::DistributedDataParallel> ddp_;
  std::optional<dist::ZeroSharding> zero_;
  std::optional<dist::ReproducibleDataParallel> reproducible_;
  std::optional<dist::ParameterAverager> averager_;
  bool state_per_rank_ = false;
};

}  // namespace rondo::train
