#pragma once
// Data sets that return one sample at a time, and the functions that make batches of samples.
//
//   struct Squares : SampleDataset {
//     std::int64_t size() const override { return 100; }
//     Sample get(std::int64_t i) const override { return {full({1}, i), full({1}, i * i)}; }
//   };
//   DataLoader loader(std::make_shared<Squares>(), {.batch_size = 8, .shuffle = true});
//
// Read next: data/loader.h.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace rondo::data {

/// Makes a batch of samples.
using Collate = std::function<Batch(std::vector<Sample>)>;

/// Stacks inputs (N, …) and targets (N, …), as torch's default_collate. Throws Error for no samples
/// or an undefined tensor, ShapeError or DTypeError if two samples differ, and DeviceError for a
/// tensor that is not on the CPU. The message names samples by `indices`, or else by their places
/// in the list.
Batch default_collate(const std::vector<Sample>& samples,
                      std::span<const std::int64_t> indices = {});
/// The rows of a batch, as views.
std::vector<Sample> rows_of(const Batch& batch);

/// A data set of your own (torch.utils.data.Dataset): `size` and `get`. A batch is stacked by
/// default_collate, or made by the loader's collate_fn.
class SampleDataset : public Dataset {
 public:
  /// Sample i, i in [0, size()). Called from several threads at once.
  virtual Sample get(std::int64_t index) const = 0;
  /// Sample i as it is in this epoch. A data set that draws at random overrides this function and
  /// draws from Philox{seed, stream}, where stream is that of Draw; then batches do not depend on
  /// workers or ranks.
  virtual Sample get_epoch_sample(std::uint64_t /*stream*/, std::int64_t index) const {
    return get(index);
  }

  Batch get_batch(std::span<const std::int64_t> indices) const final {
    return get_epoch_batch({}, indices);
  }
  Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const final;
  /// Throws ShapeError naming an index outside [0, size()).
  std::vector<Sample> get_samples(const Draw& draw,
                                  std::span<const std::int64_t> indices) const final;
};

/// Samples without a size and without access by index, such as lines of a file or messages of a
/// socket (torch.utils.data.IterableDataset).
class IterableDataset {
 public:
  /// Returns the next sample; nullopt after the last one.
  using Next = std::function<std::optional<Sample>()>;

  virtual ~IterableDataset() = default;

  /// Begins an epoch. The loader calls the returned function from one thread at a time. If the
  /// samples are a function of the epoch, a loop that resumes gets the same samples.
  virtual Next open(std::uint64_t epoch) const = 0;
  /// The same from sample `first` on, which a loop that resumes needs. By default reads and drops
  /// the samples before it. A stream that can seek overrides this function.
  virtual Next open_at(std::uint64_t epoch, std::int64_t first) const;
};

}  // namespace rondo::data
