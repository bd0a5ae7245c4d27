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

}  // namespace rondo::data
