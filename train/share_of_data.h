#pragma once
// What one rank gets of a data set in training.

#include <cstdint>
#include <memory>

#include "data/loader.h"

namespace rondo::train {

/// What becomes of the samples of an epoch that the ranks cannot share out equally.
enum class Uneven : std::uint8_t {
  pad,   // the first of the epoch's order come again at its end (torch's DistributedSampler)
  drop,  // the last of the epoch's order are left out (its drop_last)
  join,  // each comes once; ranks with a batch less take part in the others' steps (DDP's `join`)
};

struct ShareOptions {
  std::int64_t batch_size = 1;  // of all ranks together
  int rank = 0;
  int world_size = 1;
  int shards = 0;  // of reproducible training (dist/data_parallel/reproducible.h); 0: it is not
  std::uint64_t seed = 0;
  int workers = 1;
  int prefetch = 2;
  data::Transform transform = {};
  Uneven uneven = Uneven::pad;
};

struct ShareOfData {
  data::DataLoader loader;
  std::int64_t images;        // in an epoch, over all ranks
  std::int64_t most_batches;  // in an epoch, that any rank has
};

/// Throws Error for a batch size that does not divide by the ranks, or the shards, and for shards
/// with another `uneven` than pad.
ShareOfData share_of_data(std::shared_ptr<const data::Dataset> dataset,
                          const ShareOptions& options);

}  // namespace rondo::train
