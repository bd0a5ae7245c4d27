#pragma once
// evaluate: the accuracy of a classifier over a data set, shared out over the ranks.

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

/// What a program measures beside the accuracy:
///
///   {"top3", [](const Tensor& logits, const Tensor& labels) { … }}
struct Metric {
  std::string name;
  /// (model output, target) of a batch to one number, its mean over the batch's samples.
  std::function<Tensor(const Tensor&, const Tensor&)> function;
};

struct Evaluation {
  std::int64_t correct = 0, total = 0;
  double loss = 0;                          // mean cross-entropy
  std::map<std::string, double> metrics{};  // the program's, by name: means over all samples
  double accuracy() const {
    return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0;
  }
};

/// Runs `model` in eval mode (and puts each module back as it was) over every sample once: rank r
/// takes r, r + world, …, nothing is repeated to fill the last batch, and the counts are added up.
/// Correct is where argmax(logits) is the target; a metric's batches count as many times as they
/// have samples. Throws Error for an empty data set, ShapeError for a metric that is not one
/// number. Collective; equal on all ranks.
Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    std::int64_t batch_size = 250, int workers = 1,
                    const std::vector<Metric>& metrics = {});

/// What `evaluate` goes through: this rank's samples, r, r + world, …, in order, none repeated.
data::DataLoader evaluation_loader(const std::shared_ptr<const data::Dataset>& dataset,
                                   const data::Transform& transform, dist::Communicator& comm,
                                   std::int64_t batch_size, int workers);

/// Throws Error unless each has a function and a name that can head a column of a table, and that
/// no other has, nor the loss and the accuracy.
void check_metrics(const std::vector<Metric>& metrics);

/// Where its parameters lie.
Device device_of(nn::Module& model);

}  // namespace rondo::train
