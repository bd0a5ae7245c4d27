#pragma once
// The part of a data set that one rank trains on.

#include <cstdint>
#include <memory>

#include "data/loader.h"
#include "data/sampler.h"
#include "dist/collectives/communicator.h"

namespace rondo::train {

/// What happens to the samples of an epoch that cannot be divided equally among the ranks.
enum class Uneven : std::uint8_t {
  pad,   // the first samples of the epoch are repeated at its end (torch's DistributedSampler)
  drop,  // the last samples of the epoch are left out (its drop_last)
  join,  // each is used once; ranks with a batch less join the others' steps (DDP's `join`)
};

struct ShareOptions {
  std::int64_t batch_size = 1;  // of all ranks together
  int rank = 0;
  int world_size = 1;
  int shards = 0;  // of reproducible training (dist/data_parallel/reproducible.h); 0: off
  std::uint64_t seed = 0;
  int workers = 1;
  int prefetch = 2;
  data::Transform transform = {};
  Uneven uneven = Uneven::pad;
};

struct ShareOfData {
  data::DataLoader loader;
  std::int64_t images;        // in an epoch, over all ranks
  std::int64_t most_batches;  // in an epoch, the maximum over the ranks
};

/// The calling rank's share of the samples: `options` with the rank and the number of ranks of
/// `comm`.
std::shared_ptr<data::DistributedSampler> distributed_sampler(
    std::int64_t size, const dist::Communicator& comm,
    data::DistributedSamplerOptions options = {});

/// Throws Error for a batch size that is not divisible by the number of ranks, or of shards, and
/// for shards with another `uneven` than pad.
ShareOfData share_of_data(std::shared_ptr<const data::Dataset> dataset,
                          const ShareOptions& options);

}  // namespace rondo::train
