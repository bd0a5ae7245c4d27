#pragma once
// Samplers: in which order an epoch visits the samples, and which rank gets which samples.
//
// A sampler is a function of its arguments and the epoch, and has no other state. So every rank can
// compute the whole order without communication, each epoch after set_epoch has a new order, and an
// interrupted run resumes from two numbers: the epoch and the batch (LoaderPosition in
// data/loader.h).
//
// Read next: data/loader.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rondo::data {

using Indices = std::vector<std::int64_t>;

/// Note [Random streams]: each use of the user's seed has its own Philox streams, so that
/// shuffling, augmentation and the default generator (streams 0, 1, …) are independent, although
/// one `--seed` seeds them all. Epoch e uses stream (base + e). A sample that appears for the r-th
/// time after its first in an epoch is augmented from stream (base + e + 2^32 r).
inline constexpr std::uint64_t shuffle_streams = std::uint64_t{1} << 62;
inline constexpr std::uint64_t augmentation_streams = std::uint64_t{2} << 62;
inline constexpr std::uint64_t picture_streams = std::uint64_t{3} << 62;
inline constexpr std::uint64_t mix_streams = augmentation_streams + (std::uint64_t{1} << 61);

/// The epoch that a loop runs over: 0, 1, … for successive loops, unless the caller sets it.
class EpochCounter {
 public:
  /// Every loop from now on runs over this epoch.
  void set(std::uint64_t epoch) {
    now_ = epoch;
    is_set_ = true;
  }
  /// The next loop runs over this epoch, and later loops over the following epochs.
  void continue_from(std::uint64_t epoch) {
    now_ = next_ = epoch;
    is_set_ = false;
  }
  /// Called when a loop begins.
  void begin() {
    if (!is_set_) now_ = next_++;
  }
  std::uint64_t now() const { return now_; }

 private:
  std::uint64_t now_ = 0, next_ = 0;
  bool is_set_ = false;
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// The number of indices in an epoch.
  virtual std::int64_t size() const = 0;
  /// The indices of the current epoch.
  virtual Indices indices() const = 0;
  /// For each index, how many times it has already appeared in this epoch, on any rank. A sample
  /// that is drawn again is then augmented differently (Note [Augmentation is keyed by sample]).
  /// Empty if no index appears twice, or if repeated samples shall look the same.
  virtual Indices repeats() const { return {}; }
  /// Sets the epoch of all following loops. Without a call, each loop of a DataLoader is a new
  /// epoch.
  void set_epoch(std::uint64_t epoch) { epoch_.set(epoch); }
  std::uint64_t epoch() const { return epoch_.now(); }
  // For BatchSampler.
  void begin_epoch() { epoch_.begin(); }
  void continue_from(std::uint64_t epoch) { epoch_.continue_from(epoch); }

 private:
  EpochCounter epoch_;
};

/// 0, 1, …, size-1.
class SequentialSampler final : public Sampler {
 public:
  /// Throws Error for a negative size, as the samplers below do.
  explicit SequentialSampler(std::int64_t size);
  std::int64_t size() const override { return size_; }
  Indices indices() const override;

 private:
  std::int64_t size_;
};

/// A permutation of 0 … size-1 drawn from (seed, epoch). As torch's RandomSampler without
/// replacement, except that torch draws each epoch from the current state of its generator. Without
/// a seed, uses the seed of manual_seed at the time when the epoch begins.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size, std::optional<std::uint64_t> seed = {});
  std::int64_t size() const override { return size_; }
  Indices indices() const override;

 private:
  std::int64_t size_;
  std::optional<std::uint64_t> seed_;
};

/// The given indices in an order drawn from (seed, epoch); torch's SubsetRandomSampler.
class SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(Indices indices, std::optional<std::uint64_t> seed = {})
      : indices_(std::move(indices)), seed_(seed) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Indices indices() const override;

 private:
  Indices indices_;
  std::optional<std::uint64_t> seed_;
};

/// The permutation that RandomSampler and DistributedSampler use: Fisher-Yates over Philox stream
/// (seed, shuffle_streams + epoch).
Indices permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch);

struct DistributedSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// Every rank gets the same number of indices. false: the first indices of the order are repeated
  /// at its end; true: the last indices are left out.
  bool drop_last = false;
  /// false: no index is repeated or left out, and the ranks' shares may differ by one index. For
  /// evaluation, which counts each image once.
  bool even = true;
};

/// One rank's share of an epoch. Padding, dropping and striding (rank r gets r, r + world, …) are
/// those of torch.utils.data.DistributedSampler; the permutation is rondo's own. The k-th batches
/// of all ranks together are the k-th batch of a single process.
class DistributedSampler final : public Sampler {
 public:
  /// Throws Error naming rank and world size if rank is not in [0, world_size).
  explicit DistributedSampler(std::int64_t size, DistributedSamplerOptions options = {});
  std::int64_t size() const override;
  Indices indices() const override;

 private:
  std::int64_t size_;
  DistributedSamplerOptions options_;
};

/// DistributedSampler's share of an order: pads or cuts it, then takes every world_size-th index
/// from `rank` on.
Indices distribute(Indices order, const DistributedSamplerOptions& options);

struct WeightedRandomSamplerOptions {
  /// The number of indices in an epoch, over all ranks.
  std::int64_t num_samples = 0;
  /// false: no index appears twice in an epoch, except those repeated to make the ranks' shares
  /// equal.
  bool replacement = true;
  /// If not set: with one rank, the seed of manual_seed; with several ranks 0, because the ranks
  /// may have called manual_seed with different seeds.
  std::optional<std::uint64_t> seed = {};
  /// The rank whose share to take; shares are those of DistributedSampler.
  int rank = 0;
  int world_size = 1;
  bool drop_last = false;
};

/// Indices drawn with probabilities proportional to weights
/// (torch.utils.data.WeightedRandomSampler). If each sample's weight is 1 / (size of its class),
/// small classes appear as often as large ones. Without replacement, the second index is drawn from
/// the indices that remain after the first, and so on. All ranks draw the same list, and each takes
/// every world_size-th index of it, so a rank's list is a function of (weights, options, epoch). A
/// sample that is drawn again in an epoch is augmented differently.
class WeightedRandomSampler final : public Sampler {
 public:
  /// Throws Error for weights that are negative, infinite, NaN or all 0, for num_samples below 1,
  /// for more samples than positive weights without replacement, and for a rank outside [0,
  /// world_size).
  WeightedRandomSampler(std::vector<double> weights, WeightedRandomSamplerOptions options);
  std::int64_t size() const override;
  Indices indices() const override;
  Indices repeats() const override;

 private:
  Indices share_of(Indices order) const;
  Indices with_replacement() const;
  Indices without_replacement() const;

  std::vector<double> weights_;
  WeightedRandomSamplerOptions options_;
};

/// Lists of indices, one list for each batch. DataLoader takes one; write your own to group samples
/// of similar length, to balance classes, ….
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The number of batches in an epoch.
  virtual std::int64_t size() const = 0;
  virtual std::vector<Indices> batches() const = 0;
  /// As Sampler::repeats, for each batch; or empty.
  virtual std::vector<Indices> repeats() const { return {}; }
  /// As in Sampler.
  virtual void set_epoch(std::uint64_t epoch) = 0;
  virtual std::uint64_t epoch() const = 0;
  /// Called when a loop begins: starts a new epoch, unless set_epoch has set it.
  virtual void begin_epoch() {}
  /// The next loop runs over `epoch`, and later loops over the following epochs.
  virtual void continue_from(std::uint64_t epoch) { set_epoch(epoch); }
};

/// Cuts a sampler's indices into batches (torch.utils.data.BatchSampler). The last batch may be
/// smaller; drop_last leaves it out.
class BatchSampler final : public BatchSource {
 public:
  /// Throws Error if batch_size is not positive.
  BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size, bool drop_last = false);
  std::int64_t size() const override;
  std::vector<Indices> batches() const override;
  std::vector<Indices> repeats() const override;
  void set_epoch(std::uint64_t epoch) override { sampler_->set_epoch(epoch); }
  std::uint64_t epoch() const override { return sampler_->epoch(); }
  void begin_epoch() override { sampler_->begin_epoch(); }
  void continue_from(std::uint64_t epoch) override { sampler_->continue_from(epoch); }

 private:
  std::vector<Indices> cut(const Indices& order) const;

  std::shared_ptr<Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

struct ShardedBatchesOptions {
  std::int64_t batch_size = 1;  // of all ranks together
  int rank = 0;
  int world_size = 1;
  /// Every batch must be divisible by this number; a multiple of world_size.
  std::int64_t shards = 1;
  std::uint64_t seed = 0;
};

/// One rank's part of each batch. The batches, and the order of the images in them, are the same
/// for any number of ranks (dist/data_parallel/reproducible.h): each batch is cut into world_size
/// contiguous parts, and rank r gets part r. The first indices of the order are repeated at its
/// end, so that the last batch is divisible by the shards.
class ShardedBatches final : public BatchSource {
 public:
  /// Throws Error if shards is not a multiple of world_size, or batch_size not a multiple of
  /// shards.
  explicit ShardedBatches(std::int64_t size, ShardedBatchesOptions options = {});
  std::int64_t size() const override;
  std::vector<Indices> batches() const override;
  void set_epoch(std::uint64_t epoch) override { epoch_.set(epoch); }
  std::uint64_t epoch() const override { return epoch_.now(); }
  void begin_epoch() override { epoch_.begin(); }
  void continue_from(std::uint64_t epoch) override { epoch_.continue_from(epoch); }
  /// The number of indices in an epoch, over all ranks, including those that are repeated.
  std::int64_t total_size() const;

 private:
  std::int64_t size_;
  ShardedBatchesOptions options_;
  EpochCounter epoch_;
};

}  // namespace rondo::data
