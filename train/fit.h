#pragma once
// fit: the training loop, on one or more ranks. A run can be stopped and resumed.
//
// For each batch: forward, backward (DDP averages the gradients at the same time), a step of the
// optimizer and of the schedule. After each epoch: an evaluation, a line of metrics, a checkpoint.
// The loop does not depend on particular models, data sets or flags; examples/programs/classifier
// combines it with those.
//
// Read next: io/checkpoint.h, dist/data_parallel/ddp.h.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "data/loader.h"
#include "dist/collectives/communicator.h"
#include "dist/data_parallel/averager.h"
#include "dist/data_parallel/ddp.h"
#include "io/checkpoint.h"
#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "train/callback.h"
#include "train/evaluate.h"
#include "train/overlap.h"
#include "train/profiler.h"
#include "train/progress_bar.h"

namespace rondo::train {

/// How the models of the ranks are synchronised.
enum class Sync { ddp, average };

/// fit checks that all options are equal on all ranks, except callbacks, functions, and the output
/// that only rank 0 writes.
struct FitOptions {
  std::int64_t epochs = 1;
  Sync sync = Sync::ddp;
  dist::AveragerOptions averaging = {.every = 8};  // for Sync::average
  dist::DdpOptions ddp = {};                       // for Sync::ddp
  std::string comm_hook = {};                      // for Sync::ddp (dist::make_comm_hook)
  /// With Sync::ddp: each rank stores the optimizer state of only its part of the parameters
  /// (dist/data_parallel/zero.h). The optimizer must be new. A resumed run must have the same
  /// number of ranks.
  bool zero = false;
  /// Batches per step (Lightning's name). N ranks with k batches of b samples each compute the same
  /// step as one rank with a batch of N k b, if no layer mixes the samples of a batch. The last
  /// step of an epoch uses the remaining batches.
  int accumulate_grad_batches = 1;
  /// With Sync::ddp: the ranks may have different numbers of batches. A rank without further
  /// batches takes part in the steps of the others (DDP's `join`;
  /// DdpOptions::divide_by_active_ranks sets the divisor). Stop signals are handled only at the end
  /// of an epoch, and layers may not use collectives.
  bool join = false;
  /// With Sync::ddp: the number of logical shards per batch; results are bit-identical on any
  /// number of ranks (dist/data_parallel/reproducible.h). 0: off. The model must be an
  /// nn::AnyModule on the CPU, and the loader's batches must be data::ShardedBatches.
  int shards = 0;
  /// Maps (model output, target) to the mean loss of the batch; empty: cross_entropy.
  Measure criterion = {};
  /// In evaluations, the number of items over which `criterion` takes the mean
  /// (EvaluateOptions::count).
  Measure count = {};
  /// Metrics of each evaluation in addition to loss and accuracy. They appear as "test_NAME" in the
  /// line of the epoch, the metrics files and on_epoch_end.
  std::vector<Metric> metrics = {};
  /// Also measures accuracy and metrics on the training batches, each with the weights before its
  /// step: "train_accuracy" and "train_NAME". On a GPU, a metric must not wait for the device if
  /// `graph` is set.
  bool train_metrics = false;
  /// Scales the gradients of each step so that their norm is at most this (clip_grad_norm_), and
  /// reports the mean of the norms before scaling as "grad_norm". 0: off; infinity: only reports.
  double max_grad_norm = 0;
  /// Keeps an exponential moving average of the parameters with this decay (train/ema.h), and
  /// evaluates it instead of the model. Checkpoints have the averages as "ema.NAME". 0: off.
  double ema_decay = 0;
  /// Mixed precision: forward and evaluation run under autocast to bf16, or on a GPU f16. With f16,
  /// fit uses a GradScaler.
  std::optional<DType> amp = {};
  /// On a GPU: captures the step as a graph and launches the graph (train/step.h).
  bool graph = false;

  /// The folder of the checkpoints and the metrics file; empty: none. If an earlier run is there
  /// and is not resumed, it is moved to the subfolder previous-1/, or the first free number.
  std::string checkpoint_dir = {};
  std::int64_t checkpoint_every = 0;  // in steps; 0: only after each epoch
  /// Keeps this many of the newest checkpoints, and best.safetensors. If the newest is damaged, a
  /// resumed run uses the previous one.
  std::int64_t keep_checkpoints = 2;
  /// Training continues while a thread writes a checkpoint from a copy of the state. The last
  /// checkpoint is complete when fit returns. This works only if all ranks have the same state:
  /// with Sync::average, ZeRO or comm hooks with memory, the ranks write checkpoints synchronously.
  bool async_checkpoints = false;
  bool resume = false;
  std::string model_name = "model";
  /// Settings that must be equal when a run is resumed; fit adds "batch_size",
  /// "accumulate_grad_batches" and "zero".
  io::Metadata config = {};

  /// The metrics of the run as a table, one row per epoch; empty: none. Replaced unless `resume`.
  std::string csv = {};
  /// The metrics as curves, the parameters as histograms, and the model's graph, in a folder for
  /// TensorBoard (extras/tensorboard/curves.h); empty: none.
  std::string tensorboard = {};

  /// Where the time of all ranks went, as a file for chrome://tracing (train/trace.h); a run that
  /// fails writes one file per rank. Empty: none.
  std::string trace = {};

  /// The number of steps to profile on rank 0, after a few to warm up (train/profiled_steps.h); 0:
  /// none.
  std::int64_t profile_steps = 0;
  /// The ops of the profiled steps, as a file for chrome://tracing; empty: none.
  std::string profile = {};

  std::ostream* out = nullptr;  // where rank 0 prints its progress; null: nowhere
  ProgressStyle progress = ProgressStyle::automatic;
  /// Called for steps and epochs on every rank (train/callback.h). Training ends when one of them
  /// returns false on any rank; the run is then complete, and resuming it does not continue it.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// A Callback's on_epoch_end, for programs that need nothing else.
  std::function<bool(const EpochReport&)> on_epoch = {};
};

struct FitResult {
  Evaluation test;  // after the last complete epoch; samples 0: none
  double best_test_accuracy = 0;
  double best_test_loss = std::numeric_limits<double>::infinity();
  double final_loss = 0;       // mean over the last epoch's steps of all ranks
  double img_per_s = 0;        // of all ranks together, without the evaluation
  std::int64_t epochs = 0;     // completed, including those before a resume
  int stopped_by = 0;          // SIGTERM or SIGINT, also in the last epoch; 0: neither
  bool stopped_early = false;  // a callback returned false
  std::string checkpoint;      // empty: none
  /// The profiled steps of rank 0; may be null.
  std::shared_ptr<const Profiler> profile = {};
  /// For each step of this call of fit: the loss (under DDP the mean over all ranks, otherwise this
  /// rank's), and the learning rate of the step.
  struct Steps {
    std::int64_t first = 1;  // its number in the run, counted from 1
    std::vector<double> loss, lr;
  } steps = {};
  Overlap overlap = {};  // of several ranks under DDP; steps is 0 if nothing was measured
  /// With FitOptions::ema_decay: the model's state dict with the averages instead of the
  /// parameters.
  nn::StateDict ema = {};
};

struct FitData {
  data::DataLoader& train;                         // this rank's share
  std::int64_t train_images;                       // in an epoch, of all ranks together
  std::int64_t batch_size;                         // likewise
  std::shared_ptr<const data::Dataset> test = {};  // null: no evaluation
  data::Transform test_transform = {};
};

/// Trains until options.epochs epochs are complete, on the device of the model. The schedule steps
/// as often as the optimizer. best.safetensors is the checkpoint with the highest test accuracy, or
/// for other targets than classes the lowest test loss. Throws Error on all ranks for a loss that
/// is not finite, an empty data set, an optimizer of another model, and options that cannot be
/// combined; IoError if a checkpoint cannot be written or read. Collective.
FitResult fit(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule,
              FitData data, std::shared_ptr<dist::Communicator> comm, const FitOptions& options);

/// The number of steps for `batches` batches. Throws Error if accumulate_grad_batches is below 1.
std::int64_t steps_of(std::int64_t batches, int accumulate_grad_batches);

}  // namespace rondo::train
