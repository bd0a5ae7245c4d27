#pragma once
// judge: the prediction of a classifier for each sample of a data set: which classes it confuses,
// and which samples have the highest loss. evaluate (train/evaluate.h) only counts.

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/loader.h"
#include "dist/collectives/communicator.h"
#include "nn/module.h"

namespace rondo::train {

struct Judged {
  std::int64_t index = 0;  // in the data set
  std::int64_t target = 0, predicted = 0;
  double probability = 0;            // of the predicted class
  double probability_of_target = 0;  // exp(-loss)
  double loss = 0;                   // cross-entropy; NaN and infinity rank as worst
};

struct Judgement {
  /// confusion[target][predicted]: the number of samples.
  std::vector<std::vector<std::int64_t>> confusion;
  std::vector<Judged> worst;  // highest loss first; of equal losses, the lower index first
};

/// Distributes the samples over the ranks as evaluate does, in eval mode. The result is equal on
/// all ranks, and does not depend on their number except for rounding. Targets must be class
/// indices below the width of the model's output. Throws Error for an empty data set. Collective.
Judgement judge(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                const data::Transform& transform, dist::Communicator& comm, std::size_t worst = 24,
                std::int64_t batch_size = 250, int workers = 1);

}  // namespace rondo::train
