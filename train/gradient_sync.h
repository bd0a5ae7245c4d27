#pragma once
// GradientSync: how the ranks of a run keep one model. One strategy for each way, in train/sync/:
//
//   none.cpp          gradients stay on the rank (one rank, or a loop without communication)
//   ddp.cpp           gradients are averaged while backward runs; comm hooks
//   zero.cpp          the same, and each rank keeps its part of the optimizer's state
//   reproducible.cpp  shards of the batch: bit-identical on any number of ranks
//   averaging.cpp     parameters are averaged every few steps
//
// TrainStep and fit call the same functions of each, and do not know which one it is.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "dist/data_parallel/ddp.h"
#include "io/checkpoint.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "tensor/device.h"
#include "train/overlap.h"
#include "train/trace.h"

namespace rondo::train {

struct FitOptions;

class GradientSync {
 public:
  /// What a strategy needs of one step.
  struct Step {
    std::span<const data::Batch> batches;            // at least one
    std::function<Tensor(const data::Batch&)> loss;  // forward and criterion: a mean
    std::function<Tensor(const Tensor&)> scaled;     // the loss that backward starts from
    std::function<void()> zero_grad;
    const std::function<std::string()>& where;  // ends the error for a loss that is not finite
    const std::function<Tensor(const Tensor&, const Tensor&)>& criterion;
    std::optional<DType> amp = {};
    TimelineTrace* trace = nullptr;
    Overlap* overlap = nullptr;
  };

  virtual ~GradientSync() = default;

  // ---- A step ----

  /// Computes the gradients of the mean loss over all batches, and over the ranks if the strategy
  /// averages gradients. Calls zero_grad after the first forward, so that a forward that throws
  /// loses no gradients. Backward must start from `scaled` of a loss, because the step divides the
  /// gradients by a GradScaler's scale. Returns this rank's loss if it is known without waiting,
  /// else an undefined tensor. Throws Error if a loss that has arrived is not finite, and for
  /// several batches if the strategy cannot combine them.
  virtual Tensor backward(const Step& step) = 0;
  /// Between backward and the optimizer's step: scales the gradients so that their norm is at most
  /// `max_norm`, which may be infinite. Returns the norm before, one element.
  virtual Tensor clip_grad_norm(const Tensors& parameters, double max_norm);
  /// After the optimizer's step.
  virtual void after_step() {}
  /// The losses since the last call, oldest first: those that have arrived, or all with `wait`.
  virtual std::vector<double> take_losses(bool wait) = 0;
  /// The mean over the ranks of a value that each rank computed from the losses that it took.
  virtual double mean_over_ranks(double value) { return value; }  // they are means already

  // ---- A captured step (TrainStepOptions::graph) ----

  /// The number of steps that must run before a capture.
  virtual std::int64_t warm_up_steps() const { return 0; }
  virtual void begin_capture() {}
  virtual void end_capture() {}
  /// The captured step has been launched; `loss` is what backward returned in the capture.
  /// A strategy that is never captured need not override it; it throws Error.
  virtual void replayed(const Tensor& loss, const std::function<std::string()>& where);

  // ---- A run ----

  /// At the end of an epoch's steps.
  virtual void finish() {}
  /// Before an evaluation and a checkpoint: rank 0's buffers on all ranks. Collective.
  virtual void broadcast_buffers() {}
  /// The state of the communication, which a checkpoint keeps. Shares memory with it.
  virtual nn::StateDict state() { return {}; }
  /// The tensors of `state` have been overwritten with those of a checkpoint.
  virtual void restored() {}
  /// Whether ranks have weights, optimizer states or communication states of their own.
  virtual bool state_per_rank() const { return false; }
  /// Why a run that is resumed from `checkpoint` will not be bit-identical: " (4 ranks then, 2 now:
  /// the last digits will differ)"; empty if it will be.
  virtual std::string differences(const io::Checkpoint& checkpoint,
                                  const dist::Communicator& comm) const;
  /// How often the ranks may agree whether to stop, in steps: on a GPU the host should not wait
  /// often.
  virtual std::int64_t steps_between_questions(Device device) const {
    return device.is_cpu() ? 1 : 16;
  }
  /// Where they agree.
  virtual std::shared_ptr<dist::Communicator> questions(std::shared_ptr<dist::Communicator> comm) {
    return comm;
  }
  /// For a rank without more batches: takes part in the other ranks' steps, and calls `step` after
  /// each.
  virtual void join(const std::function<void()>& step);
};

/// `rank`: for messages.
std::unique_ptr<GradientSync> no_sync(int rank);
/// The strategy of a loop with or without (null) this DDP.
std::unique_ptr<GradientSync> make_sync(dist::DistributedDataParallel* ddp, int rank);

/// The strategy that the options select. Copies rank 0's model to all ranks; with
/// FitOptions::zero, gives the optimizer only this rank's pieces of the parameters. Throws Error on
/// all ranks for options that cannot be combined. Collective.
std::unique_ptr<GradientSync> make_sync(nn::Module& model, optim::Optimizer& optimizer,
                                        const std::shared_ptr<dist::Communicator>& comm,
                                        const FitOptions& options);
/// Throws Error for options that cannot work with any model. Changes nothing.
void check_sync_options(const FitOptions& options, const nn::Module& model);

}  // namespace rondo::train
