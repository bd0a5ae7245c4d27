#pragma once
// DataLoader: batches of a data set. Worker threads make them ahead of time; the loop gets them in
// order.
//
//   DataLoader loader(dataset, std::make_shared<RandomSampler>(dataset->size(), seed),
//                     {.batch_size = 128, .workers = 1}, augment);
//   for (int epoch = 0; epoch < 12; ++epoch)
//     for (auto& [images, labels] : loader) …   // each loop is a new epoch, in a new order
//
// Batch k of epoch e has the same bytes for any number of workers: its indices come from the
// sampler, and its random numbers from (seed, epoch, index) of each sample (data/transforms.h). A
// batch that is ready early waits in its own slot until its turn. Workers are threads, because
// tensors then share memory, and C++ has no interpreter lock. Inside workers OpenMP uses one
// thread, so that a parallel kernel in a user's transform does not compete with training for cores.
//
// Read next: data/transforms.h.

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include "data/dataset.h"
#include "data/sampler.h"

namespace rondo::data {

/// What a transform may know about its batch.
struct BatchContext {
  std::span<const std::int64_t> indices;  // the indices of the samples
  Draw draw;                              // the epoch, and how often the samples have already
                                          // appeared in it
  std::int64_t batch = 0;                 // counted from 0 in each epoch
};

/// Converts a batch of bytes to the model's input. Called from several threads at once.
using Transform = std::function<Batch(Batch, const BatchContext&)>;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  /// The number of worker threads. 0: the loop itself makes each batch when it needs it.
  int workers = 0;
  /// How many batches each worker may be ahead of the loop.
  int prefetch = 2;
  /// Skip the last batch if it is smaller than the others.
  bool drop_last = false;
};

/// The position of a loop. A checkpoint keeps it to resume in the middle of an epoch.
struct Position {
  std::uint64_t epoch = 0;
  std::int64_t batch = 0;  // the next one
  bool operator==(const Position&) const = default;
};

class DataLoader {
 public:
  class Iterator;

  /// Throws Error for a batch size or prefetch below 1, or a negative number of workers.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<Sampler> sampler,
             DataLoaderOptions options = {}, Transform transform = {});
  /// With lists of indices from a BatchSource (torch's `batch_sampler`). It decides about batch
  /// size and drop_last, so these options must keep their defaults.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BatchSource> batches,
             DataLoaderOptions options = {}, Transform transform = {});

  /// Batches in an epoch.
  std::int64_t size() const { return batches_->size(); }
  const Dataset& dataset() const { return *dataset_; }
  int workers() const { return options_.workers; }

  /// The next loop runs over this epoch and starts at batch `first_batch`. Later loops repeat the
  /// whole epoch until the next call of set_epoch. Without a call, each loop is a new epoch: 0, 1,
  /// …. The sampler stores the epoch, so sampler->set_epoch(e) has the same effect; augmentation
  /// uses the same epoch.
  void set_epoch(std::uint64_t epoch, std::int64_t first_batch = 0);
  /// The next loop resumes at this position, and later loops run over the following epochs.
  void set_position(Position position);

  /// Starts the workers on the epoch. They stop when the iterator is destroyed, also in the middle
  /// of an epoch. If the data set or the transform throws, the loop throws where it would have got
  /// that batch, and ends. The exception has the same class of Error (Error for other exceptions),
  /// and its message begins with the number of the batch.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<BatchSource> batches_;
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
  Position next_position() const;
  /// The indices of the samples in the current batch.
  std::span<const std::int64_t> indices() const;

 private:
  friend class DataLoader;
  class Run;
  explicit Iterator(std::unique_ptr<Run> run);
  std::unique_ptr<Run> run_;
};

}  // namespace rondo::data
