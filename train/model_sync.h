#pragma once
// ModelSync: synchronises the models of the ranks in train::fit. FitOptions selects one way: DDP,
// with a comm hook or ZeRO's shards; shards of the batch, which give bit-identical results on any
// number of ranks; or parameter averaging.

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
  /// Copies rank 0's model to all ranks. With FitOptions::zero, gives the optimizer only this
  /// rank's pieces of the parameters. Throws Error on all ranks for options that cannot be
  /// combined. Collective.
  ModelSync(nn::Module& model, optim::Optimizer& optimizer,
            const std::shared_ptr<dist::Communicator>& comm, const FitOptions& options);
  /// Throws Error for options that cannot work with any model. Changes nothing.
  static void check(const FitOptions& options, const nn::Module& model);

  // Null if not in use.
  dist::DistributedDataParallel* ddp() { return ddp_ ? &*ddp_ : nullptr; }
  dist::ZeroSharding* zero() { return zero_ ? &*zero_ : nullptr; }
  dist::ReproducibleDataParallel* reproducible() {
    return reproducible_ ? &*reproducible_ : nullptr;
  }
  dist::ParameterAverager* averager() { return averager_ ? &*averager_ : nullptr; }

  /// Whether ranks have their own weights, optimizer states or comm hook memories, which
  /// checkpoints must keep.
  bool state_per_rank() const { return state_per_rank_; }
  /// The state of the communication for checkpoints (train/run_state.h); shares memory with it.
  nn::StateDict state();
  /// Whether the loss of a step is already the mean over the ranks.
  bool averages_losses() const { return !averager_; }
  /// Call it before an evaluation or a checkpoint. Collective.
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
