#pragma once
// fit: the training loop for classifiers, on one rank or many, that survives being stopped.
//
// For each epoch: for each batch forward, backward (DDP averages the gradients meanwhile), a step
// of the optimizer and of the schedule; then the test accuracy, a line of metrics, a checkpoint.
// The loop knows nothing of models, data sets or flags; examples/classifier puts it together with
// those.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
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

namespace rondo::train {

/// How the ranks' models are kept together.
enum class Sync { ddp, average };

/// All but callbacks, functions and what rank 0 alone writes is compared between the ranks.
struct FitOptions {
  std::int64_t epochs = 1;
  Sync sync = Sync::ddp;
  dist::AveragerOptions averaging = {.every = 8};  // for Sync::average
  dist::DdpOptions ddp = {};                       // for Sync::ddp
  std::string comm_hook = {};                      // likewise (dist::make_comm_hook)
  /// With Sync::ddp: each rank has the optimizer's state of its part of the parameters alone
  /// (dist/data_parallel/zero.h). The optimizer must be new; a run goes on with as many ranks as it
  /// had.
  bool zero = false;
  /// So many batches a step (Lightning's name): N ranks with k batches of b samples each do what
  /// one does with a batch of N k b, as far as no layer mixes a batch's samples. An epoch's last
  /// step has what is left over.
  int accumulate_grad_batches = 1;
  /// With Sync::ddp: ranks may have different numbers of batches; who has no more takes part in the
  /// others' steps (DDP's `join`; DdpOptions::divide_by_active_ranks says what they are divided
  /// by). Signals are heard at the ends of epochs, and no layer may be collective.
  bool join = false;
  /// With Sync::ddp: so many logical shards a batch, and the same bits on any number of ranks
  /// (dist/data_parallel/reproducible.h); 0: off. The model must then be an nn::AnyModule on the
  /// CPU, and the loader's batches data::ShardedBatches.
  int shards = 0;
  /// (model output, target) to a mean over the batch; none: cross_entropy.
  std::function<Tensor(const Tensor&, const Tensor&)> criterion = {};
  /// What is measured in each evaluation besides loss and accuracy: "test_NAME" in the line of the
  /// epoch, the metrics files and on_epoch_end.
  std::vector<Metric> metrics = {};
  /// Mixed precision: forward and evaluation run under autocast to bf16, or on a GPU f16, which
  /// brings a GradScaler with it.
  std::optional<DType> amp = {};
  /// On a GPU: captures the step and launches it as one (train/step.h).
  bool graph = false;

  /// Empty: no checkpoints, no metrics file. What an earlier run left there and this one does not
  /// resume is moved to its folder previous-1/, or the first free one after that.
  std::filesystem::path checkpoint_dir = {};
  std::int64_t checkpoint_every = 0;  // steps; 0: after each epoch only
  /// The newest so many are kept, and best.safetensors; a run whose newest is damaged goes on from
  /// the one before.
  std::int64_t keep_checkpoints = 2;
  /// The run goes on while a checkpoint is written, from a copy of all that belongs to it; when fit
  /// returns the last is written. With gradients that are averaged as they are; where ranks have
  /// state of their own (Sync::average, ZeRO, hooks with a memory) they wait for each other as
  /// always.
  bool async_checkpoints = false;
  bool resume = false;
  std::string model_name = "model";
  /// Settings that a resumed run must share; fit adds "batch_size", "accumulate_grad_batches" and
  /// "zero".
  io::Metadata config = {};

  /// What the run measures, an epoch a row of a table; empty: none. Replaced, unless resume.
  std::filesystem::path csv = {};
  /// The same as curves, the parameters as histograms and the model's graph, in a folder that
  /// TensorBoard reads (extras/tensorboard/curves.h); empty: none.
  std::filesystem::path tensorboard = {};

  /// Where the time went, on all ranks, as a file for chrome://tracing (train/trace.h), of a run
  /// that fails a file a rank; empty: none.
  std::filesystem::path trace = {};

  /// So many steps are profiled on rank 0, after a few to warm up (train/profiled_steps.h); 0:
  /// none.
  std::int64_t profile_steps = 0;
  /// Where their ops go, as a file for chrome://tracing; empty: nowhere.
  std::filesystem::path profile = {};

  std::ostream* out = nullptr;  // where rank 0 reports; null: nowhere
  /// Told of steps and epochs on every rank (train/callback.h); training ends when one of them says
  /// false on some rank, also if it is resumed then.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// A Callback's on_epoch_end, for programs that need no more.
  std::function<bool(const EpochReport&)> on_epoch = {};
};

struct FitResult {
  Evaluation test;  // after the last complete epoch; total 0: there was none
  double best_test_accuracy = 0;
  double final_loss = 0;             // mean over the last epoch's steps of all ranks
  double img_per_s = 0;              // of all ranks together, evaluation left out
  std::int64_t epochs = 0;           // completed, those before a resume included
  int stopped_by = 0;                // SIGTERM or SIGINT; a checkpoint was written
  bool stopped_early = false;        // a callback said so
  std::filesystem::path checkpoint;  // empty: none
  /// Rank 0's profiled steps; null where there are none.
  std::shared_ptr<const Profiler> profile = {};
  /// Of each step since this call of fit: the loss (of all ranks under DDP, else of this one's),
  /// and the learning rate that was used.
  struct Steps {
    std::int64_t first = 1;  // its number in the run, counted from 1
    std::vector<double> loss, lr;
  } steps = {};
  Overlap overlap = {};  // of several ranks under DDP; no steps: there was none to measure
};

struct FitData {
  data::DataLoader& train;    // this rank's share
  std::int64_t train_images;  // in an epoch, of all ranks together
  std::int64_t batch_size;    // likewise
  std::shared_ptr<const data::Dataset> test;
  data::Transform test_transform;
};

/// Trains until options.epochs are done, on the device that the model is on. The schedule steps
/// as often as the optimizer. Throws Error on all ranks when a loss is not finite, for an empty
/// data set, and for options that do not go together; IoError when a checkpoint cannot be written
/// or read. Collective.
FitResult fit(nn::Module& model, optim::Optimizer& optimizer, optim::LRSchedule& schedule,
              FitData data, std::shared_ptr<dist::Communicator> comm, const FitOptions& options);

/// How many steps `batches` batches are. Throws Error for accumulate_grad_batches below 1.
std::int64_t steps_of(std::int64_t batches, int accumulate_grad_batches);

}  // namespace rondo::train
