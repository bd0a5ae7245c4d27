// Orders of an epoch, and the shares of ranks in them.

#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "tensor/error.h"
#include "tensor/random.h"

namespace rondo::data {
namespace {

void check_size(std::int64_t size, const char* sampler) {
  require(size >= 0, sampler, ": a size of ", size);
}

/// How many indices each rank gets when all get equally many.
std::int64_t even_share(std::int64_t size, const DistributedSamplerOptions& options) {
  const std::int64_t world = options.world_size;
  return options.drop_last ? size / world : (size + world - 1) / world;
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t size) : size_(size) {
  check_size(size, "SequentialSampler");
}

Indices SequentialSampler::indices() const {
  Indices order(static_cast<std::size_t>(size_));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

RandomSampler::RandomSampler(std::int64_t size, std::uint64_t seed) : size_(size), seed_(seed) {
  check_size(size, "RandomSampler");
}

Indices RandomSampler::indices() const { return permutation(size_, seed_, epoch()); }

Indices permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch) {
  Indices order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const Philox random{seed, shuffle_streams + epoch};
  for (std::uint64_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[uniform_below(random.word64(i), i)]);
  }
  return order;
}

DistributedSampler::DistributedSampler(std::int64_t size, DistributedSamplerOptions options)
    : size_(size), options_(options) {
  check_size(size, "DistributedSampler");
  require(options.world_size > 0 && options.rank >= 0 && options.rank < options.world_size,
          "DistributedSampler: rank ", options.rank, " of a world of ", options.world_size);
}

std::int64_t DistributedSampler::size() const {
  if (options_.even) return even_share(size_, options_);
  return (size_ - options_.rank + options_.world_size - 1) / options_.world_size;
}

Indices DistributedSampler::indices() const {
  return distribute(options_.shuffle ? permutation(size_, options_.seed, epoch())
                                     : SequentialSampler(size_).indices(),
                    options_);
}

Indices distribute(Indices order, const DistributedSamplerOptions& options) {
  const auto world = static_cast<std::size_t>(options.world_size);
  if (options.even && !order.empty()) {
    const std::size_t size = order.size();
    order.resize(static_cast<std::size_t>(even_share(static_cast<std::int64_t>(size), options)) *
                 world);
    for (std::size_t i = size; i < order.size(); ++i) order[i] = order[i - size];
  }
  Indices share;
  for (std::size_t i = static_cast<std::size_t>(options.rank); i < order.size(); i += world) {
    share.push_back(order[i]);
  }
  return share;
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size,
                           bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  require(sampler_ != nullptr, "BatchSampler: no sampler");
  require(batch_size > 0, "BatchSampler: a batch size of ", batch_size);
}

std::int64_t BatchSampler::size() const {
  return drop_last_ ? sampler_->size() / batch_size_
                    : (sampler_->size() + batch_size_ - 1) / batch_size_;
}

std::vector<Indices> BatchSampler::batches() const {
  const Indices order = sampler_->indices();
  std::vector<Indices> batches;
  for (std::int64_t b = 0, count = size(); b < count; ++b) {
    const auto begin = order.begin() + b * batch_size_;
    batches.emplace_back(begin, begin + std::min<std::int64_t>(batch_size_, order.end() - begin));
  }
  return batches;
}

ShardedBatches::ShardedBatches(std::int64_t size, ShardedBatchesOptions options)
    : size_(size), options_(options) {
  check_size(size, "ShardedBatches");
  require(options.world_size > 0 && options.rank >= 0 && options.rank < options.world_size,
          "ShardedBatches: rank ", options.rank, " of a world of ", options.world_size);
  require(options.shards > 0 && options.shards % options.world_size == 0,
          "ShardedBatches: ", options.shards, " shards do not divide by ", options.world_size,
          " ranks");
  require(options.batch_size > 0 && options.batch_size % options.shards == 0,
          "ShardedBatches: a batch of ", options.batch_size, " does not divide by ", options.shards,
          " shards");
}

std::int64_t ShardedBatches::total_size() const {
  return (size_ + options_.shards - 1) / options_.shards * options_.shards;
}

std::int64_t ShardedBatches::size() const {
  return (total_size() + options_.batch_size - 1) / options_.batch_size;
}

std::vector<Indices> ShardedBatches::batches() const {
  Indices order = permutation(size_, options_.seed, epoch_);
  order.resize(static_cast<std::size_t>(total_size()));
  const auto own = static_cast<std::size_t>(size_);
  for (std::size_t i = own; i < order.size(); ++i) order[i] = order[i - own];
  std::vector<Indices> batches;
  for (std::int64_t first = 0; first < std::ssize(order); first += options_.batch_size) {
    const std::int64_t part =
        std::min(options_.batch_size, std::ssize(order) - first) / options_.world_size;
    const auto begin = order.begin() + first + part * options_.rank;
    batches.emplace_back(begin, begin + part);
  }
  return batches;
}

}  // namespace rondo::data
