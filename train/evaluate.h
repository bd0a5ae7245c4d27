#pragma once
// evaluate: the loss and the metrics of a model on a data set, computed by all ranks together.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::train {

/// Maps (model output, target) of a batch to one number.
using Measure = std::function<Tensor(const Tensor& output, const Tensor& target)>;

/// cross_entropy. Throws ShapeError for an output of one number for each sample whose targets are
/// floats: a regression without a criterion, whose loss would mean nothing.
Tensor default_criterion(const Tensor& output, const Tensor& target);

/// What a program measures in addition to the loss and the accuracy:
///
///   {"mae", [](const Tensor& y, const Tensor& target) { return l1_loss(y, target); }}
struct Metric {
  std::string name;
  /// The mean over the items of the batch.
  Measure function;
  /// The number of these items, for example of tokens that are not padding; empty: the samples.
  Measure count = {};
};

struct Evaluation {
  /// If the targets are classes: the number of correct predictions and of targets (for images with
  /// a class for each pixel: pixels). A negative target is not counted. Otherwise 0.
  std::int64_t correct = 0, total = 0;
  double loss = 0;                          // the mean of the criterion
  std::map<std::string, double> metrics{};  // the program's metrics by name
  std::int64_t samples = 0;                 // in the data set; 0: nothing was evaluated
  double accuracy() const {
    return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0;
  }
};

struct EvaluateOptions {
  std::int64_t batch_size = 250;
  int workers = 1;
  /// The mean loss of a batch; empty: cross_entropy.
  Measure criterion = {};
  /// The number of items over which `criterion` takes the mean. Empty: if the targets are classes,
  /// those that are not negative; otherwise the samples.
  Measure count = {};
  std::vector<Metric> metrics = {};
};

/// Runs `model` in eval mode over every sample once, then restores the mode of each module. Rank r
/// takes the samples r, r + world, …; no sample is repeated to fill the last batch. All results are
/// Σ mean · count / Σ count over the batches of all ranks, so batches and ranks of other sizes give
/// the same results, up to rounding. Targets are classes if they are integers of shape (N, …) and
/// the output is (N, C, …); argmax(output, 1) is the prediction. Throws Error for an empty data
/// set, and ShapeError for a metric that is not one number. Collective; the result is equal on all
/// ranks.
Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    const EvaluateOptions& options = {});

/// The loader that `evaluate` uses: the samples r, r + world, … of this rank, in order, none
/// repeated.
data::DataLoader evaluation_loader(const std::shared_ptr<const data::Dataset>& dataset,
                                   const data::Transform& transform, dist::Communicator& comm,
                                   std::int64_t batch_size, int workers);

/// Throws Error unless each metric has a function and a name that can be a column of a table. Names
/// must be unique, and not "loss" or "accuracy".
void check_metrics(const std::vector<Metric>& metrics);

/// The device of the model's parameters.
Device device_of(nn::Module& model);

}  // namespace rondo::train
