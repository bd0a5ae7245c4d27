#pragma once
// What one rank gets of a data set in training.

#include <cstdint>
#include <memory>

#include "data/loader.h"

namespace rondo::train {

struct ShareOptions {
  std::int64_t batch_size = 1;  // of all ranks together
  int rank = 0;
  int world_size = 1;
  int shards = 0;  // of reproducible training (dist/reproducible.h); 0: it is not
  std::uint64_t seed = 0;
  int workers = 1;
  int prefetch = 2;
  data::Transform transform = {};
};

struct ShareOfData {
  data::DataLoader loader;
  std::int64_t images;  // in an epoch, over all ranks
};

/// Throws Error for a batch size that does not divide by the ranks, or the shards.
ShareOfData share_of_data(std::shared_ptr<const data::Dataset> dataset,
                          const ShareOptions& options);

}  // namespace rondo::train
