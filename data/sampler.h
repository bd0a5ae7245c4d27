#pragma once
// Samplers: in which order an epoch visits the samples, and which rank sees which of them.
//
// A sampler is a function of (its arguments, the epoch) and has no other state. So every rank can
// work out the whole order without asking, each epoch is another one after set_epoch, and a run
// that stopped in the middle of an epoch goes on from two numbers: the epoch and the batch
// (Position in data/loader.h).
//
// Read next: data/loader.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace rondo::data {

using Indices = std::vector<std::int64_t>;

/// Note [Random streams]: whatever draws from a user's seed has Philox streams of its own, so that
/// shuffling, augmentation and the default generator (streams 0, 1, …) are independent although one
/// `--seed` feeds them all. Epoch e uses stream (base + e), and a sample that comes for the r-th
/// time after its first in an epoch is augmented from stream (base + e + 2^32 r).
inline constexpr std::uint64_t shuffle_streams = std::uint64_t{1} << 62;
inline constexpr std::uint64_t augmentation_streams = std::uint64_t{2} << 62;
inline constexpr std::uint64_t picture_streams = std::uint64_t{3} << 62;

/// Which epoch a loop runs over: a new one each time, from 0 on, unless somebody says which.
class EpochCounter {
 public:
  /// Every loop from now on runs over this epoch.
  void set(std::uint64_t epoch) {
    now_ = epoch;
    is_set_ = true;
  }
  /// The next loop does, and those after it over the following ones.
  void continue_from(std::uint64_t epoch) {
    now_ = next_ = epoch;
    is_set_ = false;
  }
  /// A loop begins.
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
  /// How many indices an epoch has.
  virtual std::int64_t size() const = 0;
  /// The indices of the current epoch.
  virtual Indices indices() const = 0;
  /// How many times each of them came before in this epoch, whichever rank it went to: a sample
  /// that is drawn again is then augmented anew (Note [Augmentation is keyed by sample]). Empty,
  /// where none comes again or is to look the same when it does.
  virtual Indices repeats() const { return {}; }
  /// The epoch of all following loops. Without it each loop of a DataLoader is a new epoch.
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

/// A permutation of 0 … size-1 drawn from (seed, epoch): torch's RandomSampler without replacement,
/// except that torch draws each epoch from where its generator stands. Without a seed it is that of
/// manual_seed, as it is when the epoch begins.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size, std::optional<std::uint64_t> seed = {});
  std::int64_t size() const override { return size_; }
  Indices indices() const override;

 private:
  std::int64_t size_;
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
  /// Every rank gets equally many: by repeating the first indices of the order at its end, or, with
  /// drop_last, by leaving out its last ones.
  bool drop_last = false;
  /// false: no index is repeated or left out, and ranks may differ by one in what they get. For
  /// evaluation, which counts each image once.
  bool even = true;
};

/// One rank's share of an epoch. Padding, dropping and striding (rank r gets r, r + world, …) are
/// those of torch.utils.data.DistributedSampler; the permutation is ours. In lockstep, the k-th
/// batches of all ranks together are the k-th batch that a single process would take.
class DistributedSampler final : public Sampler {
 public:
  /// Throws Error naming rank and world size when rank is not in [0, world_size).
  explicit DistributedSampler(std::int64_t size, DistributedSamplerOptions options = {});
  std::int64_t size() const override;
  Indices indices() const override;

 private:
  std::int64_t size_;
  DistributedSamplerOptions options_;
};

/// What DistributedSampler does to an order: pad it or cut it, then every world_size-th from rank.
Indices distribute(Indices order, const DistributedSamplerOptions& options);

struct WeightedRandomSamplerOptions {
  /// How many indices an epoch has, over all ranks.
  std::int64_t num_samples = 0;
  /// false: no index comes twice in an epoch, but for the few that make the ranks' shares equal.
  bool replacement = true;
  /// None: manual_seed's, of one rank; of several, who may have called it with different ones, 0.
  std::optional<std::uint64_t> seed = {};
  /// Which share of them: what DistributedSampler does with an order, done with these.
  int rank = 0;
  int world_size = 1;
  bool drop_last = false;
};

/// Indices drawn with probabilities that are proportional to weights
/// (torch.utils.data.WeightedRandomSampler): classes with few samples are shown as often as others
/// when each sample weighs one over the size of its class. Without replacement the second is drawn
/// from what the first left over, and so on. Ranks draw the same list and take every
/// world_size-th of it, so each list is a function of (weights, options, epoch). A sample that is
/// drawn again in an epoch is augmented anew.
class WeightedRandomSampler final : public Sampler {
 public:
  /// Throws Error for weights that are negative, infinite, NaN or all 0, for num_samples below 1,
  /// for more of them than there are positive weights without replacement, or a rank outside of the
  /// world.
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

/// Lists of indices, one a batch. What DataLoader takes; write your own to group samples of similar
/// length, to balance classes, ….
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Batches in an epoch.
  virtual std::int64_t size() const = 0;
  virtual std::vector<Indices> batches() const = 0;
  /// What Sampler::repeats has, for each batch; or nothing.
  virtual std::vector<Indices> repeats() const { return {}; }
  /// As Sampler's.
  virtual void set_epoch(std::uint64_t epoch) = 0;
  virtual std::uint64_t epoch() const = 0;
  /// A loop begins: a new epoch, unless set_epoch has said which.
  virtual void begin_epoch() {}
  /// The next loop runs over `epoch`, and those after it over the following ones.
  virtual void continue_from(std::uint64_t epoch) { set_epoch(epoch); }
};

/// Cuts a sampler's indices into batches (torch.utils.data.BatchSampler). The last one may be
/// smaller; drop_last leaves it out.
class BatchSampler final : public BatchSource {
 public:
  /// Throws Error when batch_size is not positive.
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
  /// What every batch must divide by; a multiple of world_size.
  std::int64_t shards = 1;
  std::uint64_t seed = 0;
};

/// One rank's part of each batch where the batches, and the order of the images in them, are to be
/// the same whatever the number of ranks (dist/data_parallel/reproducible.h): rank r has the r-th
/// of world_size neighbouring parts of each. So that the last batch divides by the shards, the
/// first indices of the order are repeated at its end.
class ShardedBatches final : public BatchSource {
 public:
  /// Throws Error when shards do not divide by the ranks, or batch_size by the shards.
  explicit ShardedBatches(std::int64_t size, ShardedBatchesOptions options = {});
  std::int64_t size() const override;
  std::vector<Indices> batches() const override;
  void set_epoch(std::uint64_t epoch) override { epoch_.set(epoch); }
  std::uint64_t epoch() const override { return epoch_.now(); }
  void begin_epoch() override { epoch_.begin(); }
  void continue_from(std::uint64_t epoch) override { epoch_.continue_from(epoch); }
  /// Indices in an epoch, over all ranks, with those that are repeated.
  std::int64_t total_size() const;

 private:
  std::int64_t size_;
  ShardedBatchesOptions options_;
  EpochCounter epoch_;
};

}  // namespace rondo::data
