#pragma once
// DataLoader: batches of a data set. Worker threads make them ahead of time; the loop gets them in
// order.
//
//   DataLoader loader(dataset, {.batch_size = 128, .shuffle = true, .workers = 1}, augment);
//   for (int epoch = 0; epoch < 12; ++epoch)
//     for (auto& [images, labels] : loader) …   // each loop is a new epoch, in a new order
//
// Batch k of epoch e has the same bytes for any number of workers: its indices come from the
// sampler, and its random numbers from (seed, epoch, index) of each sample (data/transforms.h). A
// batch that is ready early waits in its own slot until its turn. Workers are threads, because
// tensors then share memory, and C++ has no interpreter lock. Inside workers OpenMP uses one
// thread, so that a parallel kernel in a user's transform does not compete with training for cores.
//
// Read next: train/fit.h, the loop; about data: data/transforms.h.

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "data/dataset.h"
#include "data/sampler.h"
#include "data/samples.h"

namespace rondo::data {

/// What a transform may know about its batch.
struct BatchContext {
  std::span<const std::int64_t> indices;  // the indices of the samples
  Draw draw;                              // the epoch, and how often the samples have already
                                          // appeared in it
  std::int64_t batch = 0;                 // counted from 0 in each epoch
};

/// Converts a batch of bytes to the model's input: a function of the batch and its context, or of
/// the batch alone. Called from several threads at once.
class Transform : public std::function<Batch(Batch, const BatchContext&)> {
 public:
  using function::function;
  Transform() = default;
  template <class F>
  requires std::is_invocable_r_v<Batch, F&, Batch> Transform(F f)
      : function([f = std::move(f)](Batch batch, const BatchContext&) mutable -> Batch {
          return f(std::move(batch));
        }) {}
};

/// The transform that applies `f` to each sample of a batch and stacks the results, which may have
/// another shape or dtype than the samples. Throws as default_collate does.
Transform for_each_sample(std::function<Sample(Sample)> f);

/// Applies one transform after the other (torchvision's Compose). Throws Error for an empty one.
Transform compose(std::vector<Transform> transforms);

/// PyTorch's names and defaults.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  /// A new order in each epoch.
  bool shuffle = false;
  /// The order, instead of `shuffle`.
  std::shared_ptr<Sampler> sampler = {};
  /// The batches, instead of all other options about the order.
  std::shared_ptr<BatchSource> batch_sampler = {};
  /// Skip the last batch if it is smaller than the others.
  bool drop_last = false;
  /// Seeds `shuffle`. If not set: with one rank the seed of manual_seed, with several ranks 0.
  std::optional<std::uint64_t> seed = {};
  /// With a world_size above 1, this rank loads its share of the samples (DistributedSampler).
  int rank = 0;
  int world_size = 1;
  /// The number of worker threads. 0: the loop itself makes each batch when it needs it.
  int workers = 0;
  /// How many batches each worker may be ahead of the loop.
  int prefetch = 2;
  /// Makes a batch from samples, for example if their shapes differ. By default the data set makes
  /// it. Called from several threads at once.
  Collate collate_fn = {};
};

/// The position of a loop. A checkpoint keeps it to resume in the middle of an epoch.
struct LoaderPosition {
  std::uint64_t epoch = 0;
  std::int64_t batch = 0;  // the next one
  bool operator==(const LoaderPosition&) const = default;
};

class DataLoader {
 public:
  class Iterator;

  /// Batches of a data set. Throws Error for a batch size or prefetch below 1, a negative number of
  /// workers, or options that contradict each other.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {},
                      Transform transform = {});
  /// Batches of a stream, which decides about the order. A context's indices are the samples'
  /// places in the epoch. One worker at a time reads from the stream; the workers collate and
  /// transform in parallel. A loop resumes at batch k from sample k × batch_size of the stream.
  explicit DataLoader(std::shared_ptr<const IterableDataset> stream, DataLoaderOptions options = {},
                      Transform transform = {});
  /// The first constructor with options.sampler.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<Sampler> sampler,
             DataLoaderOptions options = {}, Transform transform = {});
  /// The first constructor with options.batch_sampler.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BatchSource> batches,
             DataLoaderOptions options = {}, Transform transform = {});

  /// Batches in an epoch. Throws Error for a stream.
  std::int64_t size() const { return batches_->size(); }
  /// Throws Error for a stream.
  const Dataset& dataset() const;
  int workers() const { return options_.workers; }

  /// The next loop runs over this epoch and starts at batch `first_batch`. Later loops repeat the
  /// whole epoch until the next call of set_epoch. Without a call, each loop is a new epoch: 0, 1,
  /// …. The sampler stores the epoch, so sampler->set_epoch(e) has the same effect; augmentation
  /// uses the same epoch.
  void set_epoch(std::uint64_t epoch, std::int64_t first_batch = 0);
  /// The next loop resumes at this position, and later loops run over the following epochs.
  void set_position(LoaderPosition position);

  /// Starts the workers on the epoch. They stop when the iterator is destroyed, also in the middle
  /// of an epoch. If the data set or the transform throws, the loop throws where it would have got
  /// that batch, and ends. The exception has the same class of Error (Error for other exceptions),
  /// and its message begins with the number of the batch.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  void check() const;

  std::shared_ptr<const Dataset> dataset_;         // or
  std::shared_ptr<const IterableDataset> stream_;  // the other is null
  std::shared_ptr<BatchSource> batches_;           // of a stream: counts its epochs
  DataLoaderOptions options_;
  Transform transform_;
  std::int64_t first_batch_ = 0;
};

/// Iterates over the batches of one epoch: an input iterator that cannot be copied.
class DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  /// The current batch. The loop may move from it.
  Batch& operator*() const;
  Batch* operator->() const { return &**this; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const;

  /// The position at which to resume after the current batch has been used.
  LoaderPosition next_position() const;
  /// The indices of the samples in the current batch; of a stream: their places in the epoch.
  std::span<const std::int64_t> indices() const;

 private:
  friend class DataLoader;
  class Run;
  explicit Iterator(std::unique_ptr<Run> run);
  std::unique_ptr<Run> run_;
};

}  // namespace rondo::data
