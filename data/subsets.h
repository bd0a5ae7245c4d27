#pragma once
// Data sets built from others: a part of one, a random split, several concatenated, and one whose
// decoded pictures are cached in memory. They refer to the other data sets and copy no samples.
//
// Random choices of a data set (data/image_pipeline.h) stay keyed by the index that the sample has
// in its original data set.

#include <cstddef>
#include <mutex>

#include "data/dataset.h"
#include "data/image_folder.h"
#include "data/sampler.h"

namespace rondo::data {

/// Samples of another data set, in this order; repetitions are allowed (torch.utils.data.Subset).
class Subset final : public Dataset {
 public:
  /// Throws ShapeError naming an index outside the data set.
  Subset(std::shared_ptr<const Dataset> dataset, Indices indices);

  std::int64_t size() const override { return std::ssize(indices_); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const override;
  std::vector<Sample> get_samples(const Draw& draw,
                                  std::span<const std::int64_t> indices) const override;
  std::int64_t num_classes() const override { return dataset_->num_classes(); }
  const std::vector<std::string>& class_names() const override { return dataset_->class_names(); }

  const Dataset& dataset() const { return *dataset_; }
  const Indices& indices() const { return indices_; }

 private:
  Indices chosen(std::span<const std::int64_t> indices) const;

  std::shared_ptr<const Dataset> dataset_;
  Indices indices_;
};

/// Splits a data set at random into parts that do not overlap (torch.utils.data.random_split).
/// `lengths` either add up to its size, or add up to 1 and are shares of it. Each share is rounded
/// down; the remaining samples go to the first parts, one each. The split depends only on the seed
/// and the size. Throws Error for lengths that are negative, not integers, or have another sum.
std::vector<std::shared_ptr<Subset>> random_split(const std::shared_ptr<const Dataset>& dataset,
                                                  const std::vector<double>& lengths,
                                                  std::uint64_t seed = 0);

/// Several data sets, one after another (torch.utils.data.ConcatDataset).
class ConcatDataset final : public Dataset {
 public:
  /// Throws Error if the list is empty.
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);

  std::int64_t size() const override { return ends_.back(); }
  /// If a batch has samples of several data sets, they must return rows of equal shapes and dtypes
  /// on the CPU; else throws ShapeError or DTypeError.
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    return get_epoch_batch({}, indices);
  }
  Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const override;
  std::vector<Sample> get_samples(const Draw& draw,
                                  std::span<const std::int64_t> indices) const override;
  /// The largest number of classes of any data set.
  std::int64_t num_classes() const override;
  /// The class names if all data sets have the same ones; else empty.
  const std::vector<std::string>& class_names() const override;

  /// The number of samples in the first data set, in the first two, and so on (torch's
  /// cumulative_sizes).
  const std::vector<std::int64_t>& cumulative_sizes() const { return ends_; }

 private:
  /// The samples of one batch that are in one data set.
  struct Part {
    Indices indices;                      // in its data set
    Indices repeats;                      // how often each appeared before; may be empty
    std::vector<std::int64_t> positions;  // in the batch
  };
  std::vector<Part> parts_of(const Draw& draw, std::span<const std::int64_t> indices) const;

  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;
};

/// The same samples, but decoded pictures are kept, up to `limit` bytes of pixels; the pipeline
/// still runs each time. When the limit is reached, the kept pictures stay, and the others are
/// decoded each time. (Evicting the oldest picture would not help: every sample appears once in an
/// epoch, so the oldest picture is needed next.) Each rank has its own cache. Batches are the same
/// with and without a cache.
class CachedDataset final : public DecodedImages {
 public:
  /// Throws Error if limit is negative.
  CachedDataset(std::shared_ptr<const DecodedImages> images, std::int64_t limit);

  std::int64_t size() const override { return images_->size(); }
  std::int64_t num_classes() const override { return images_->num_classes(); }
  const std::vector<std::string>& class_names() const override { return images_->class_names(); }
  Tensor decode(std::int64_t index) const override;
  std::int64_t label(std::int64_t index) const override { return images_->label(index); }
  std::string name(std::int64_t index) const override { return images_->name(index); }

  /// Bytes of pixels currently kept.
  std::int64_t cached_bytes() const;
  /// Number of pictures currently kept.
  std::int64_t cached_count() const;

 private:
  std::shared_ptr<const DecodedImages> images_;
  std::int64_t limit_;
  mutable std::mutex mutex_;  // guards the members below
  mutable std::vector<Tensor> kept_;
  mutable std::int64_t bytes_ = 0, count_ = 0;
};

}  // namespace rondo::data
