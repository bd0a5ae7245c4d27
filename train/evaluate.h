#pragma once
// evaluate: the accuracy of a classifier over a data set, shared out over the ranks.

#include <memory>

#include "data/dataset.h"
#include "data/loader.h"
#include "dist/communicator.h"
#include "nn/module.h"

namespace rondo::train {

struct Evaluation {
  std::int64_t correct = 0, total = 0;
  double loss = 0;  // mean cross-entropy
  double accuracy() const {
    return total > 0 ? static_cast<double>(correct) / static_cast<double>(total) : 0;
  }
};

/// Runs `model` in eval mode (and puts each module back as it was) over every sample once: rank r
/// takes r, r + world, …, nothing is repeated to fill the last batch, and the counts are added up.
/// Correct is where argmax(logits) is the target. Throws Error for an empty data set. Collective;
/// equal on all ranks.
Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    std::int64_t batch_size = 250, int workers = 1);

/// What `evaluate` goes through: this rank's samples, r, r + world, …, in order, none repeated.
data::DataLoader evaluation_loader(const std::shared_ptr<const data::Dataset>& dataset,
                                   const data::Transform& transform, dist::Communicator& comm,
                                   std::int64_t batch_size, int workers);

/// Where its parameters lie.
Device device_of(nn::Module& model);

}  // namespace rondo::train
