// Maps sample indices to indices of other data sets, and puts the rows back in order.

#include "data/subsets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace rondo::data {
namespace {

/// Random splits draw from an epoch that no training reaches.
constexpr std::uint64_t split_epoch = std::uint64_t{1} << 61;

void check_index(std::int64_t index, std::int64_t size) {
  require<ShapeError>(index >= 0 && index < size, "sample ", index,
                      " was asked for, but the data set has ", size, " samples");
}

/// to[positions[k]] = from[k], for whole rows. The first call allocates `to` with `count` rows like
/// those of `from`.
void scatter_rows(const Tensor& from, const std::vector<std::int64_t>& positions,
                  std::int64_t count, Tensor& to) {
  const MemoryFormat format = from.suggested_format();
  Dims sizes = from.shape();
  require<ShapeError>(
      from.device().is_cpu() && from.is_contiguous(format) && from.size(0) == std::ssize(positions),
      "ConcatDataset: rows ", from.shape(), " on ", from.device(),
      " cannot be put together with others");
  sizes[0] = count;
  if (!to.defined()) to = Tensor::empty(sizes, {.dtype = from.dtype(), .format = format});
  require<ShapeError>(to.shape() == sizes && to.is_contiguous(format),
                      "ConcatDataset: samples of one batch come as rows of ", to.shape(),
                      " and of ", sizes);
  require<DTypeError>(to.dtype() == from.dtype(), "ConcatDataset: samples of one batch come as ",
                      to.dtype(), " and as ", from.dtype());
  const std::int64_t row = to.nbytes() / count;
  for (std::size_t k = 0; k < positions.size(); ++k) {
    std::memcpy(static_cast<char*>(to.data_ptr()) + positions[k] * row,
                static_cast<const char*>(from.data_ptr()) + static_cast<std::int64_t>(k) * row,
                static_cast<std::size_t>(row));
  }
}

/// Converts lengths or shares to integer lengths.
std::vector<std::int64_t> whole_lengths(const std::vector<double>& lengths, std::int64_t size) {
  double sum = 0;
  for (const double length : lengths) {
    require(std::isfinite(length) && length >= 0, "random_split: a length of ", length,
            ", but it must be finite and not negative");
    sum += length;
  }
  std::vector<std::int64_t> whole;
  if (std::abs(sum - 1) <= 1e-9 * std::max(sum, 1.0)) {
    std::int64_t rest = size;
    for (const double share : lengths) {
      whole.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(size) * share)));
      rest -= whole.back();
    }
    for (std::size_t i = 0; rest > 0; i = (i + 1) % whole.size(), --rest) ++whole[i];
    return whole;
  }
  require(sum == static_cast<double>(size), "random_split: lengths add up to ", sum, "; expected ",
          size, ", the size of the data set, or 1 for shares of it");
  for (const double length : lengths) {
    require(length == std::floor(length), "random_split: a length of ", length, " samples");
    whole.push_back(static_cast<std::int64_t>(length));
  }
  return whole;
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> dataset, Indices indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  require(dataset_ != nullptr, "Subset: no data set");
  for (const std::int64_t index : indices_) check_index(index, dataset_->size());
}

Indices Subset::chosen(std::span<const std::int64_t> indices) const {
  Indices chosen;
  for (const std::int64_t index : indices) {
    check_index(index, size());
    chosen.push_back(indices_[static_cast<std::size_t>(index)]);
  }
  return chosen;
}

Batch Subset::get_batch(std::span<const std::int64_t> indices) const {
  return dataset_->get_batch(chosen(indices));
}

Batch Subset::get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const {
  return dataset_->get_epoch_batch(draw, chosen(indices));
}

std::vector<Sample> Subset::get_samples(const Draw& draw,
                                        std::span<const std::int64_t> indices) const {
  return dataset_->get_samples(draw, chosen(indices));
}

std::vector<std::shared_ptr<Subset>> random_split(const std::shared_ptr<const Dataset>& dataset,
                                                  const std::vector<double>& lengths,
                                                  std::uint64_t seed) {
  require(dataset != nullptr, "random_split: no data set");
  const std::vector<std::int64_t> whole = whole_lengths(lengths, dataset->size());
  const Indices order = permutation(dataset->size(), seed, split_epoch);
  std::vector<std::shared_ptr<Subset>> parts;
  auto at = order.begin();
  for (const std::int64_t length : whole) {
    parts.push_back(std::make_shared<Subset>(dataset, Indices(at, at + length)));
    at += length;
  }
  return parts;
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  require(!datasets_.empty(), "ConcatDataset: no data sets");
  for (const auto& dataset : datasets_) {
    require(dataset != nullptr, "ConcatDataset: one of its data sets is null");
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + dataset->size());
  }
}

std::vector<ConcatDataset::Part> ConcatDataset::parts_of(
    const Draw& draw, std::span<const std::int64_t> indices) const {
  std::vector<Part> parts(datasets_.size());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    check_index(indices[k], size());
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), indices[k]);
    Part& part = parts[static_cast<std::size_t>(end - ends_.begin())];
    part.indices.push_back(indices[k] - (end == ends_.begin() ? 0 : *(end - 1)));
    if (!draw.repeats.empty()) part.repeats.push_back(draw.repeats[k]);
    part.positions.push_back(static_cast<std::int64_t>(k));
  }
  return parts;
}

Batch ConcatDataset::get_epoch_batch(const Draw& draw,
                                     std::span<const std::int64_t> indices) const {
  const std::vector<Part> parts = parts_of(draw, indices);
  Batch whole;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const Part& part = parts[d];
    const bool alone = part.indices.size() == indices.size();
    if (part.indices.empty() && !alone) continue;
    const Batch batch = datasets_[d]->get_epoch_batch({draw.epoch, part.repeats}, part.indices);
    if (alone) return batch;
    scatter_rows(batch.input, part.positions, std::ssize(indices), whole.input);
    scatter_rows(batch.target, part.positions, std::ssize(indices), whole.target);
  }
  return whole;
}

std::vector<Sample> ConcatDataset::get_samples(const Draw& draw,
                                               std::span<const std::int64_t> indices) const {
  const std::vector<Part> parts = parts_of(draw, indices);
  std::vector<Sample> samples(indices.size());
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (parts[d].indices.empty()) continue;
    auto some = datasets_[d]->get_samples({draw.epoch, parts[d].repeats}, parts[d].indices);
    for (std::size_t k = 0; k < some.size(); ++k)
      samples[static_cast<std::size_t>(parts[d].positions[k])] = std::move(some[k]);
  }
  return samples;
}

std::int64_t ConcatDataset::num_classes() const {
  std::int64_t most = 0;
  for (const auto& dataset : datasets_) most = std::max(most, dataset->num_classes());
  return most;
}

const std::vector<std::string>& ConcatDataset::class_names() const {
  for (const auto& dataset : datasets_) {
    if (dataset->class_names() != datasets_[0]->class_names()) return Dataset::class_names();
  }
  return datasets_[0]->class_names();
}

CachedDataset::CachedDataset(std::shared_ptr<const DecodedImages> images, std::int64_t limit)
    : DecodedImages(images != nullptr ? images->pipeline() : ImagePipeline()),
      images_(std::move(images)),
      limit_(limit) {
  require(images_ != nullptr, "CachedDataset: no data set");
  require(limit >= 0, "CachedDataset: a limit of ", limit, " bytes, but it must not be negative");
  kept_.resize(static_cast<std::size_t>(images_->size()));
}

Tensor CachedDataset::decode(std::int64_t index) const {
  check_index(index, size());
  Tensor& kept = kept_[static_cast<std::size_t>(index)];
  {
    const std::lock_guard lock(mutex_);
    if (kept.defined()) return kept;
  }
  // Two workers may decode the same picture at the same time; only the first result is kept.
  Tensor picture = images_->decode(index);
  const std::lock_guard lock(mutex_);
  if (!kept.defined() && bytes_ + picture.nbytes() <= limit_) {
    kept = picture;
    bytes_ += picture.nbytes();
    ++count_;
  }
  return picture;
}

std::int64_t CachedDataset::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::int64_t CachedDataset::cached_count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace rondo::data
