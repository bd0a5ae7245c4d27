#pragma once
// ReplayBuffer: a data set that the program fills while it trains, for example with the newest
// samples of a simulation. When it is full, each new sample replaces the oldest.
//
//   auto buffer = std::make_shared<data::ReplayBuffer>(256);
// whenever the simulation has a sample
//   data::DataLoader loader(buffer, std::make_shared<data::RandomSampler>(buffer->size(), seed),
//                           {.batch_size = 32});
// over the samples present when the loader was constructed
//
// Note [Pushes during a loop]
// Sample i is the content of place i; the k-th sample pushed, counted from 0, goes to place k mod
// capacity. So a push does not change the index of any other sample, and an index that was valid
// stays valid. A loop that began before a push continues over the same indices: batches made before
// the push hold the old samples, batches made after it hold the new ones, and no batch mixes parts
// of two samples. How many batches are made ahead depends on the speed of the workers, so programs
// that must be reproducible push between loops, or use no workers. A loader constructed before the
// buffer was full ignores samples that were added later.

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "data/dataset.h"

namespace rondo::data {

/// push, size and get_batch may be called from any thread.
class ReplayBuffer final : public Dataset {
 public:
  /// Holds at most `capacity` samples. Throws Error if capacity is below 1.
  explicit ReplayBuffer(std::int64_t capacity);

  /// Copies one sample. The first sample decides the shapes and dtypes of all samples, and its push
  /// allocates the whole buffer. Shapes are those of a single sample, without N; a scalar target
  /// has shape []. Throws ShapeError, DTypeError, or DeviceError if a tensor is not on the CPU; the
  /// buffer is then unchanged.
  void push(const Tensor& input, const Tensor& target);

  /// The current number of samples; `capacity()` once the buffer is full.
  std::int64_t size() const override;
  std::int64_t capacity() const { return capacity_; }
  /// The number of samples pushed so far.
  std::int64_t pushed() const;
  /// The current content of these places, read atomically with respect to push. Throws ShapeError
  /// naming an index outside [0, size()).
  Batch get_batch(std::span<const std::int64_t> indices) const override;

 private:
  const std::int64_t capacity_;
  mutable std::mutex mutex_;  // guards the members below
  std::int64_t pushed_ = 0;
  std::optional<TensorDataset> rows_;  // of `capacity_` rows, after the first push
};

}  // namespace rondo::data
