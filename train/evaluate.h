#pragma once
// evaluate: the accuracy of a classifier on a data set, computed by all ranks together.

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

/// A metric that a program measures in addition to the accuracy:
///
///   {"top3", [](const Tensor& logits, const Tensor& labels) { … }}
struct Metric {
  std::string name;
  /// Maps (model output, target) of a batch to one number, the mean over the samples of the batch.
  std::function<Tensor(const Tensor&, const Tensor&)> function;
};

struct Evaluation {
  std::int64_t correct = 0, total = 0;
  double loss = 0;                          // mean cross-entropy
  std::map<std::string, double> metrics{};  // the program's metrics by name: means over all samples
  double accuracy() const {
    return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0;
  }
};

/// Runs `model` in eval mode over every sample once, then restores the mode of each module. Rank r
/// takes the samples r, r + world, …; no sample is repeated to fill the last batch; the counts are
/// summed over the ranks. A sample is correct if argmax(logits) is its target. The mean of a metric
/// weights each batch by its number of samples. Throws Error for an empty data set, and ShapeError
/// for a metric that is not one number. Collective; the result is equal on all ranks.
Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    std::int64_t batch_size = 250, int workers = 1,
                    const std::vector<Metric>& metrics = {});

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
