#pragma once
// Callback: functions of the program that train::fit calls during training.
//
//   struct Print : train::Callback {
//     void on_step_end(const train::StepReport& step) override { std::cout << step.loss << '\n'; }
//   };
//   train::Trainer trainer(net, sgd, {.fit = {.callbacks = {std::make_shared<Print>()}}});
//
// The names are those of Keras and Transformers. Each method is called on every rank, in the order
// of the list. Its arguments are equal on all ranks unless a comment says otherwise. It may use
// collectives that all ranks call at the same point.

#include <cstdint>

#include "io/checkpoint.h"
#include "train/evaluate.h"
#include "train/metrics.h"

namespace rondo::train {

struct FitResult;

/// A completed step of the optimizer.
struct StepReport {
  std::int64_t epoch = 0;  // the epoch of the step, counted from 1
  std::int64_t step = 0;   // within the run, counted from 1
  /// The loss of the newest step whose loss has arrived: on the CPU this step, on a GPU a step some
  /// steps earlier. With parameter averaging it is the loss of this rank only.
  double loss = 0;
  double lr = 0;  // the learning rate of the step
};

/// The results of an epoch.
struct EpochReport {
  std::int64_t epoch = 0;  // completed, counted from 1
  double train_loss = 0;   // mean over its steps
  /// What FitOptions::train_metrics and max_grad_norm measure on its steps: "train_accuracy",
  /// "train_NAME", "grad_norm".
  Metrics train = {};
  Evaluation test = {};
  double lr = 0, img_per_s = 0, seconds = 0;
  Metrics metrics;  // all of the above by name, and the program's: a row of the metrics file
};

/// The contents of EpochReport::metrics, from the other fields and the number of steps of the run.
Metrics metrics_of(const EpochReport& report, std::int64_t steps);
/// For the user: "epoch 1/3: loss 0.4812, test accuracy 86.10 % (8610 of 10000), …".
std::string line_of(const EpochReport& report, std::int64_t epochs);

class Callback {
 public:
  virtual ~Callback() = default;
  /// Before the first step. `epochs` is the number of completed epochs, more than 0 if the run is
  /// resumed.
  virtual void on_train_begin(std::int64_t /*epochs*/) {}
  virtual void on_step_end(const StepReport&) {}
  /// After the evaluation. Returning false ends the training on all ranks. After a run is killed
  /// and resumed, it may be called for an epoch again.
  virtual bool on_epoch_end(const EpochReport&) { return true; }
  /// After the last checkpoint, also if a signal ended the run, but not if the run failed.
  virtual void on_train_end(const FitResult&) {}

  /// The state that a resumed run needs. No other callback of the run may use the same names
  /// ("early_stopping.test_loss.min.best"). Each checkpoint has rank 0's state; all ranks get it
  /// back before on_train_begin.
  virtual io::Metadata state_dict() const { return {}; }
  virtual void load_state_dict(const io::Metadata&) {}
};

struct EarlyStoppingOptions {
  enum class Mode : std::uint8_t { min, max };
  std::string monitor = "test_loss";  // a column of the metrics file
  Mode mode = Mode::min;              // whether a lower or a higher value is better
  double min_delta = 0;               // the smallest change that counts as better
  std::int64_t patience = 3;          // epochs in a row without improvement
};

/// Ends a run after `patience` epochs in a row in which `monitor` did not improve on its best value
/// by more than min_delta (Lightning's EarlyStopping). NaN is not an improvement. The model keeps
/// the weights of the last epoch; the weights with the best accuracy are in best.safetensors.
class EarlyStopping final : public Callback {
 public:
  /// Throws Error if patience is below 1, or min_delta is negative or not finite.
  explicit EarlyStopping(EarlyStoppingOptions options = {});
  /// Throws Error, with the list of metrics, if the metric `monitor` does not exist.
  bool on_epoch_end(const EpochReport& report) override;
  io::Metadata state_dict() const override;
  void load_state_dict(const io::Metadata& state) override;

  /// The number of epochs in a row without improvement.
  std::int64_t wait_count() const { return wait_count_; }
  double best() const { return best_; }

 private:
  std::string key(const char* name) const;

  EarlyStoppingOptions options_;
  double best_;
  std::int64_t wait_count_ = 0;
};

}  // namespace rondo::train
