#pragma once
// ReplayBuffer: a data set that the program fills while it trains, with the newest samples of a
// simulation, say. Once it is full each new sample takes the place of the oldest.
//
//   auto buffer = std::make_shared<data::ReplayBuffer>(256);
//   buffer->push(now, later);                       // as often as the simulation has one
//   data::DataLoader loader(buffer, std::make_shared<data::RandomSampler>(buffer->size(), seed),
//                           {.batch_size = 32});
//   for (auto& [x, y] : loader) …                   // over what was there when it was made
//
// Note [Pushes during a loop]
// Sample i is what lies in place i; the k-th sample pushed, from 0, goes to place k mod capacity.
// So a push changes no other sample's number, and numbers once valid stay valid. A loop that began
// before a push goes on over the same numbers: batches that were made before hold the old samples,
// batches made after hold the new ones, and no batch holds half of a sample. How many batches are
// ahead depends on the workers' speed, so programs that must be repeatable push between loops, or
// have no workers. A loader made before the buffer was full leaves out what came later.

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "data/dataset.h"

namespace rondo::data {

/// Any thread may push, ask for the size and for batches.
class ReplayBuffer final : public Dataset {
 public:
  /// At most `capacity` samples. Throws Error for one below 1.
  explicit ReplayBuffer(std::int64_t capacity);

  /// Copies one sample. The first decides the shapes and dtypes of all, and allocates the whole
  /// buffer. Shapes are those of a single sample, without N; a scalar target has shape []. Throws
  /// ShapeError, DTypeError, or DeviceError where a tensor is not on the CPU; then nothing changes.
  void push(const Tensor& input, const Tensor& target);

  /// How many samples there are: `capacity()` once it is full.
  std::int64_t size() const override;
  std::int64_t capacity() const { return capacity_; }
  /// How many samples were pushed so far.
  std::int64_t pushed() const;
  /// What lies in these places now, all of it of one moment. Throws ShapeError naming an index
  /// outside [0, size()).
  Batch get_batch(std::span<const std::int64_t> indices) const override;

 private:
  const std::int64_t capacity_;
  mutable std::mutex mutex_;  // guards what follows
  std::int64_t pushed_ = 0;
  std::optional<TensorDataset> rows_;  // of `capacity_` rows, after the first push
};

}  // namespace rondo::data
