#include "train/share_of_data.h"

#include "tensor/error.h"

namespace rondo::train {

std::shared_ptr<data::DistributedSampler> distributed_sampler(
    std::int64_t size, const dist::Communicator& comm, data::DistributedSamplerOptions options) {
  options.rank = comm.rank();
  options.world_size = comm.world_size();
  return std::make_shared<data::DistributedSampler>(size, options);
}

ShareOfData share_of_data(std::shared_ptr<const data::Dataset> dataset,
                          const ShareOptions& options) {
  const std::int64_t size = dataset->size();
  const data::DataLoaderOptions loading{.batch_size = options.batch_size / options.world_size,
                                        .workers = options.workers,
                                        .prefetch = options.prefetch};
  if (options.shards > 0) {
    require(options.uneven == Uneven::pad,
            "with shards, uneven must be pad: reproducible training fills the last batch of an "
            "epoch by repeating samples");
    auto batches = std::make_shared<data::ShardedBatches>(
        size, data::ShardedBatchesOptions{.batch_size = options.batch_size,
                                          .rank = options.rank,
                                          .world_size = options.world_size,
                                          .shards = options.shards,
                                          .seed = options.seed});
    const std::int64_t images = batches->total_size();
    return {data::DataLoader(std::move(dataset), batches,
                             {.workers = options.workers, .prefetch = options.prefetch},
                             options.transform),
            images, batches->size()};
  }
  require(options.batch_size > 0 && options.batch_size % options.world_size == 0, "a batch of ",
          options.batch_size, " is not divisible by the ", options.world_size, " ranks");
  auto sampler = std::make_shared<data::DistributedSampler>(
      size, data::DistributedSamplerOptions{.rank = options.rank,
                                            .world_size = options.world_size,
                                            .seed = options.seed,
                                            .drop_last = options.uneven == Uneven::drop,
                                            .even = options.uneven != Uneven::join});
  const bool joins = options.uneven == Uneven::join;
  require(!joins || size >= options.world_size, "the ", size,
          " training samples are fewer than the ", options.world_size,
          " ranks; with join each rank needs at least one");
  const std::int64_t images = joins ? size : sampler->size() * options.world_size;
  const std::int64_t most = (images + options.world_size - 1) / options.world_size;
  return {data::DataLoader(std::move(dataset), sampler, loading, options.transform), images,
          (most + loading.batch_size - 1) / loading.batch_size};
}

}  // namespace rondo::train
