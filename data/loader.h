#pragma once
// DataLoader: batches of a data set, made ahead of time by worker threads, handed out in order.
//
//   DataLoader loader(dataset, std::make_shared<RandomSampler>(dataset->size(), seed),
//                     {.batch_size = 128, .workers = 1}, augment);
//   for (int epoch = 0; epoch < 12; ++epoch)
//     for (auto& [images, labels] : loader) …   // each loop is a new epoch, in a new order
//
// Batch k of epoch e is the same bytes whatever the number of workers: its indices come from the
// sampler, its random numbers from (seed, epoch, index) of each sample (data/transforms.h), and
// whoever finishes first waits in a slot of its own until its turn comes. Workers are threads,
// since tensors are shared memory here and there is no interpreter to wait for; inside them OpenMP
// runs with one thread, so that a parallel kernel in a user's transform does not crowd out
// training.
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

/// What a transform may know about the batch it is given.
struct BatchContext {
  std::span<const std::int64_t> indices;  // which samples these are
  Draw draw;                              // in which epoch, and how often they came before
  std::int64_t batch = 0;                 // counted from 0 in each epoch
};

/// Bytes in, what the model wants out. Called from several threads at once.
using Transform = std::function<Batch(Batch, const BatchContext&)>;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  /// Threads that make batches; 0: the caller of the loop makes each when it asks for it.
  int workers = 0;
  /// Batches each worker may be ahead of the loop.
  int prefetch = 2;
  /// Leave out a last batch that is smaller than the others.
  bool drop_last = false;
};

/// Where a loop stands: what a checkpoint keeps to go on from the middle of an epoch.
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
  /// With lists of indices from elsewhere (torch's `batch_sampler`): batch_size and drop_last are
  /// then its business and should be left alone.
  DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BatchSource> batches,
             DataLoaderOptions options = {}, Transform transform = {});

  /// Batches in an epoch.
  std::int64_t size() const { return batches_->size(); }
  const Dataset& dataset() const { return *dataset_; }
  int workers() const { return options_.workers; }

  /// The next loop runs over this epoch, and starts at its batch `first_batch`; those after it
  /// repeat the epoch from its start, until set_epoch says otherwise. Without a call each loop is a
  /// new epoch: 0, 1, …. The epoch is kept by the sampler, so sampler->set_epoch(e) does the same;
  /// augmentation follows it.
  void set_epoch(std::uint64_t epoch, std::int64_t first_batch = 0);
  /// The next loop goes on from here, and those after it run over the following epochs.
  void set_position(Position position);

  /// Starts the workers on the epoch. They stop when the iterator goes, in mid-epoch too. What the
  /// data set or the transform throws comes out where the loop would have got the batch, as the
  /// same class of Error (Error for exceptions from elsewhere) with the number of the batch in
  /// front, and ends the loop.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<BatchSource> batches_;
  DataLoaderOptions options_;
  Transform transform_;
  std::int64_t first_batch_ = 0;
};

/// Batches of one epoch: an input iterator that cannot be copied.
class DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  /// The batch; the loop may move it away.
  Batch& operator*() const;
  Batch* operator->() const { return &**this; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const;

  /// Where to go on when the batch at hand is done with.
  Position next_position() const;
  /// The samples in the batch at hand.
  std::span<const std::int64_t> indices() const;

 private:
  friend class DataLoader;
  class Run;
  explicit Iterator(std::unique_ptr<Run> run);
  std::unique_ptr<Run> run_;
};

}  // namespace rondo::data
