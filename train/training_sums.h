#pragma once
// TrainingSums: what train::fit measures in the training steps of an epoch, except the loss: the
// norm of the gradients (FitOptions::max_grad_norm), the accuracy and the metrics
// (FitOptions::train_metrics). A run that resumes within an epoch continues the sums.

#include <functional>
#include <string>

#include "dist/collectives/communicator.h"
#include "io/checkpoint.h"
#include "train/batch_sums.h"
#include "train/fit.h"
#include "train/metrics.h"

namespace rondo::train {

class TrainingSums {
 public:
  TrainingSums(const FitOptions& options, Device device);

  /// Adds a batch: TrainStepOptions::observe. Null if nothing of it is measured.
  std::function<void(const Tensor& output, const Tensor& target)> observer();
  void add_norm(const Tensor& norm);
  void begin_epoch();
  /// Computes `metrics`. Collective.
  void end_epoch(dist::Communicator& comm);
  /// The means of the last complete epoch: "grad_norm", "train_accuracy", "train_NAME".
  const Metrics& metrics() const { return metrics_; }

  /// Collective.
  void save(io::Metadata& metadata, dist::Communicator& comm) const;
  void restore(const io::Metadata& metadata, const dist::Communicator& comm);

 private:
  bool measures() const { return options_.max_grad_norm > 0 || options_.train_metrics; }
  std::string name_of(std::size_t sum) const;

  const FitOptions& options_;
  BatchSums sums_;  // the norm of the gradients, correct predictions, then metrics
  Metrics metrics_;
};

}  // namespace rondo::train
