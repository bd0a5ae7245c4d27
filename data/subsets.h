#pragma once
// Data sets made of others: part of one, a random division, several one after another, and one
// whose decoded pictures stay in memory. They hold the others and copy no samples.
//
// What a data set draws (data/image_pipeline.h) stays keyed by the number that the sample has in
// the data set it comes from.

#include <cstddef>
#include <mutex>

#include "data/dataset.h"
#include "data/image_folder.h"
#include "data/sampler.h"

namespace rondo::data {

/// Samples of another data set, in this order; repetitions are allowed
/// (torch.utils.data.Subset).
class Subset final : public Dataset {
 public:
  /// Throws ShapeError naming an index outside of the data set.
  Subset(std::shared_ptr<const Dataset> dataset, Indices indices);

  std::int64_t size() const override { return std::ssize(indices_); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const override;
  std::int64_t num_classes() const override { return dataset_->num_classes(); }
  const std::vector<std::string>& class_names() const override { return dataset_->class_names(); }

  const Dataset& dataset() const { return *dataset_; }
  const Indices& indices() const { return indices_; }

 private:
  Indices chosen(std::span<const std::int64_t> indices) const;

  std::shared_ptr<const Dataset> dataset_;
  Indices indices_;
};

/// Divides a data set at random into parts that do not overlap (torch.utils.data.random_split).
/// `lengths` add up to its size; or they add up to 1 and are shares of it, each rounded down, and
/// what is left over goes to the first parts, one sample each. The division depends on the seed and
/// the size alone. Throws Error for lengths that are negative, broken, or add up to something else.
std::vector<std::shared_ptr<Subset>> random_split(const std::shared_ptr<const Dataset>& dataset,
                                                  const std::vector<double>& lengths,
                                                  std::uint64_t seed = 0);

/// One data set after another (torch.utils.data.ConcatDataset).
class ConcatDataset final : public Dataset {
 public:
  /// Throws Error where there is none.
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);

  std::int64_t size() const override { return ends_.back(); }
  /// A batch from several data sets needs them to give rows of equal shapes and dtypes on the CPU;
  /// throws ShapeError or DTypeError where they do not.
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    return get_epoch_batch({}, indices);
  }
  Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const override;
  /// The largest of any.
  std::int64_t num_classes() const override;
  /// Those that all have, or none where they differ.
  const std::vector<std::string>& class_names() const override;

  /// How many samples the first data sets have together: torch's cumulative_sizes.
  const std::vector<std::int64_t>& cumulative_sizes() const { return ends_; }

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;
};

/// The same samples, but what was decoded once is kept, up to `limit` bytes of pixels; its pipeline
/// still runs each time. When the limit is reached what is there stays, and the rest is decoded
/// each time: in an epoch every sample comes once, so whatever throws out the oldest throws out
/// what comes next. Each rank has a cache of its own. Batches are the same with and without.
class CachedDataset final : public DecodedImages {
 public:
  /// Throws Error for a negative limit.
  CachedDataset(std::shared_ptr<const DecodedImages> images, std::int64_t limit);

  std::int64_t size() const override { return images_->size(); }
  std::int64_t num_classes() const override { return images_->num_classes(); }
  const std::vector<std::string>& class_names() const override { return images_->class_names(); }
  Tensor decode(std::int64_t index) const override;
  std::int64_t label(std::int64_t index) const override { return images_->label(index); }
  std::string name(std::int64_t index) const override { return images_->name(index); }

  /// Bytes of pixels kept by now.
  std::int64_t cached_bytes() const;
  /// Pictures kept by now.
  std::int64_t cached_count() const;

 private:
  std::shared_ptr<const DecodedImages> images_;
  std::int64_t limit_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::vector<Tensor> kept_;
  mutable std::int64_t bytes_ = 0, count_ = 0;
};

}  // namespace rondo::data
