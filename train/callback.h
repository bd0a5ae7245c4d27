#pragma once
// Callback: what a program wants to do while train::fit trains.
//
//   struct Print : train::Callback {
//     void on_step_end(const train::StepReport& step) override { std::cout << step.loss << '\n'; }
//   };
//   train::Trainer trainer(net, sgd, {.fit = {.callbacks = {std::make_shared<Print>()}}});
//
// Keras's and Transformers' names. Each method is called on every rank, in the order of the list.
// What it is told is equal on all ranks but where a comment says otherwise; collectives that all
// ranks call in the same place are allowed.

#include <cstdint>

#include "io/checkpoint.h"
#include "train/evaluate.h"
#include "train/metrics.h"

namespace rondo::train {

struct FitResult;

/// A step of the optimizer that is over.
struct StepReport {
  std::int64_t epoch = 0;  // that it belongs to, counted from 1
  std::int64_t step = 0;   // in the run, counted from 1
  /// Of the newest step whose loss has arrived: on the CPU this one's, on a GPU one of some steps
  /// ago. Where parameters are averaged it is this rank's own.
  double loss = 0;
  double lr = 0;  // that it was made with
};

/// What an epoch came to.
struct EpochReport {
  std::int64_t epoch = 0;  // completed, counted from 1
  double train_loss = 0;   // mean over its steps
  Evaluation test;
  double lr = 0, img_per_s = 0, seconds = 0;
  Metrics metrics;  // the row of the metrics file: all of this by name, the program's metrics too
};

/// What EpochReport::metrics holds, but for itself, and the number of steps of the run.
Metrics metrics_of(const EpochReport& report, std::int64_t steps);
/// "epoch 1/3: loss 0.4812, test accuracy 86.10 % (8610 of 10000), …": for the user.
std::string line_of(const EpochReport& report, std::int64_t epochs);

class Callback {
 public:
  virtual ~Callback() = default;
  /// Before the first step; so many epochs are behind the run, more than 0 where it is resumed.
  virtual void on_train_begin(std::int64_t /*epochs*/) {}
  virtual void on_step_end(const StepReport&) {}
  /// After the evaluation. false: it is enough, and training ends for all ranks. A run that is
  /// killed before its next checkpoint may tell of an epoch again.
  virtual bool on_epoch_end(const EpochReport&) { return true; }
  /// After the last checkpoint, also when a signal has ended the run; not when it has failed.
  virtual void on_train_end(const FitResult&) {}

  /// What it must remember in a run that is resumed, under names of its own, of which no other
  /// callback of the run has one ("early_stopping.test_loss.min.best"). Rank 0's is saved with each
  /// checkpoint; all ranks get it back before on_train_begin.
  virtual io::Metadata state_dict() const { return {}; }
  virtual void load_state_dict(const io::Metadata&) {}
};

struct EarlyStoppingOptions {
  enum class Mode : std::uint8_t { min, max };
  std::string monitor = "test_loss";  // a column of the metrics file
  Mode mode = Mode::min;              // what is better: less, or more
  double min_delta = 0;               // by how much at least
  std::int64_t patience = 3;          // so many epochs in a row may be no better
};

/// Ends a run that gets no better: after `patience` epochs in a row in which `monitor` was not
/// better than its best by more than min_delta (Lightning's EarlyStopping). NaN is not better. The
/// weights stay the last epoch's; those of the best accuracy are in best.safetensors.
class EarlyStopping final : public Callback {
 public:
  /// Throws Error for a patience below 1 or a min_delta that is negative or not finite.
  explicit EarlyStopping(EarlyStoppingOptions options = {});
  /// Throws Error naming what there is, where there is no such column.
  bool on_epoch_end(const EpochReport& report) override;
  io::Metadata state_dict() const override;
  void load_state_dict(const io::Metadata& state) override;

  /// Epochs in a row that were no better.
  std::int64_t wait_count() const { return wait_count_; }
  double best() const { return best_; }

 private:
  std::string key(const char* name) const;

  EarlyStoppingOptions options_;
  double best_;
  std::int64_t wait_count_ = 0;
};

}  // namespace rondo::train
