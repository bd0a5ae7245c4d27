// The order of an epoch, and the shares of the ranks.

#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tensor/error.h"
#include "tensor/random.h"

namespace rondo::data {
namespace {

void check_size(std::int64_t size, const char* sampler) {
  require(size >= 0, sampler, ": a size of ", size, ", but it must not be negative");
}

/// The number of indices for each rank if all ranks get the same number.
std::int64_t even_share(std::int64_t size, const DistributedSamplerOptions& options) {
  const std::int64_t world = options.world_size;
  return options.drop_last ? size / world : (size + world - 1) / world;
}

std::uint64_t seed_of(const WeightedRandomSamplerOptions& options) {
  if (options.seed || options.world_size > 1) return options.seed.value_or(0);
  return default_generator().state().seed;
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

RandomSampler::RandomSampler(std::int64_t size, std::optional<std::uint64_t> seed)
    : size_(size), seed_(seed) {
  check_size(size, "RandomSampler");
}

Indices RandomSampler::indices() const {
  return permutation(size_, seed_.value_or(default_generator().state().seed), epoch());
}

Indices SubsetRandomSampler::indices() const {
  Indices order;
  for (const std::int64_t i :
       permutation(size(), seed_.value_or(default_generator().state().seed), epoch()))
    order.push_back(indices_[static_cast<std::size_t>(i)]);
  return order;
}

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
          "DistributedSampler: rank ", options.rank, " of a world of ", options.world_size,
          "; the rank must be from 0 to world_size - 1");
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

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)), options_(options) {
  std::int64_t positive = 0;
  double sum = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    require(std::isfinite(weights_[i]) && weights_[i] >= 0, "WeightedRandomSampler: weight ", i,
            " is ", weights_[i], ", but must be finite and not negative");
    positive += weights_[i] > 0;
    sum += weights_[i];
  }
  require(positive > 0 && std::isfinite(sum), "WeightedRandomSampler: ", weights_.size(),
          " weights add up to ", sum, ", but the sum must be finite and positive");
  require(options.num_samples > 0, "WeightedRandomSampler: num_samples = ", options.num_samples,
          ", but must be at least 1");
  require(options.replacement || options.num_samples <= positive,
          "WeightedRandomSampler: ", options.num_samples, " samples without replacement, but ",
          positive, " weights are positive");
  require(options.world_size > 0 && options.rank >= 0 && options.rank < options.world_size,
          "WeightedRandomSampler: rank ", options.rank, " of a world of ", options.world_size,
          "; the rank must be from 0 to world_size - 1");
}

std::int64_t WeightedRandomSampler::size() const {
  return even_share(options_.num_samples,
                    {.world_size = options_.world_size, .drop_last = options_.drop_last});
}

Indices WeightedRandomSampler::share_of(Indices order) const {
  return distribute(
      std::move(order),
      {.rank = options_.rank, .world_size = options_.world_size, .drop_last = options_.drop_last});
}

Indices WeightedRandomSampler::indices() const {
  return share_of(options_.replacement ? with_replacement() : without_replacement());
}

// Counted over all ranks' indices: two ranks that draw the same sample augment it differently.
Indices WeightedRandomSampler::repeats() const {
  if (!options_.replacement) return {};
  Indices order = with_replacement();
  Indices drawn(weights_.size(), 0);
  for (std::int64_t& index : order) index = drawn[static_cast<std::size_t>(index)]++;
  return share_of(std::move(order));
}

/// On a line where index i has a segment of length weights_[i], each draw is a uniformly random
/// point.
Indices WeightedRandomSampler::with_replacement() const {
  std::vector<double> ends(weights_.size());
  std::partial_sum(weights_.begin(), weights_.end(), ends.begin());
  // Rounding may give a point past the end; then use the last segment with positive length.
  const auto last = std::lower_bound(ends.begin(), ends.end(), ends.back());
  const Philox random{seed_of(options_), shuffle_streams + epoch()};
  Indices drawn(static_cast<std::size_t>(options_.num_samples));
  for (std::size_t k = 0; k < drawn.size(); ++k) {
    const double place = uniform_double(random.word64(k)) * ends.back();
    const auto end = std::min(std::upper_bound(ends.begin(), ends.end(), place), last);
    drawn[k] = end - ends.begin();
  }
  return drawn;
}

/// Index i arrives after an exponentially distributed time of rate weights_[i]. The indices are
/// drawn in the order of arrival. Exponential times have no memory, so after each draw the rest is
/// again such a race (Efraimidis and Spirakis 2006; torch.multinomial does the same).
Indices WeightedRandomSampler::without_replacement() const {
  const Philox random{seed_of(options_), shuffle_streams + epoch()};
  std::vector<std::pair<double, std::int64_t>> arrivals;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    const double time = -std::log1p(-uniform_double(random.word64(i))) / weights_[i];
    arrivals.emplace_back(time, static_cast<std::int64_t>(i));
  }
  const auto end = arrivals.begin() + options_.num_samples;
  std::partial_sort(arrivals.begin(), end, arrivals.end());
  Indices drawn;
  for (auto at = arrivals.begin(); at != end; ++at) drawn.push_back(at->second);
  return drawn;
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size,
                           bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  require(sampler_ != nullptr, "BatchSampler: no sampler");
  require(batch_size > 0, "BatchSampler: a batch size of ", batch_size,
          ", but it must be at least 1");
}

std::int64_t BatchSampler::size() const {
  return drop_last_ ? sampler_->size() / batch_size_
                    : (sampler_->size() + batch_size_ - 1) / batch_size_;
}

std::vector<Indices> BatchSampler::batches() const { return cut(sampler_->indices()); }

std::vector<Indices> BatchSampler::repeats() const {
  const Indices repeats = sampler_->repeats();
  return repeats.empty() ? std::vector<Indices>() : cut(repeats);
}

std::vector<Indices> BatchSampler::cut(const Indices& order) const {
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
          "ShardedBatches: rank ", options.rank, " of a world of ", options.world_size,
          "; the rank must be from 0 to world_size - 1");
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
  Indices order = permutation(size_, options_.seed, epoch_.now());
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
