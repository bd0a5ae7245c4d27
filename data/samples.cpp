// Stacking samples: the first sample decides shape and dtype, the others are compared with it.

#include "data/samples.h"

#include <utility>

#include "tensor/backend.h"
#include "tensor/error.h"

namespace rondo::data {
namespace {

/// rows[place], without the leading dimension.
Tensor row_of(const Tensor& rows, std::int64_t place) {
  const Dims &sizes = rows.shape(), &strides = rows.strides();
  return rows.as_view({sizes.begin() + 1, sizes.end()}, {strides.begin() + 1, strides.end()},
                      rows.storage_offset() + place * strides[0]);
}

Tensor stacked(const std::vector<Sample>& samples, Tensor Sample::*part, const char* role,
               std::span<const std::int64_t> indices) {
  const auto name = [&](std::size_t k) {
    return indices.empty() ? static_cast<std::int64_t>(k) : indices[k];
  };
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const Tensor &x = samples[k].*part, &first = samples[0].*part;
    require(x.defined(), "sample ", name(k), " has an undefined ", role,
            "; a sample needs an input and a target");
    require<DeviceError>(x.device().is_cpu(), "the ", role, " of sample ", name(k), " is on ",
                         x.device(), ", but data sets are on the CPU; call .to(Device::cpu())");
    require<ShapeError>(x.shape() == first.shape(), "the ", role, " of sample ", name(k),
                        " has shape ", x.shape(), ", but that of sample ", name(0), " has ",
                        first.shape(), "; give the loader a collate_fn");
    require<DTypeError>(x.dtype() == first.dtype(), "the ", role, " of sample ", name(k), " is ",
                        x.dtype(), ", but that of sample ", name(0), " is ", first.dtype());
  }
  const Tensor& first = samples[0].*part;
  Dims sizes{static_cast<std::int64_t>(samples.size())};
  for (const std::int64_t size : first.shape()) sizes.push_back(size);
  Tensor rows = Tensor::empty(sizes, {.dtype = first.dtype()});
  for (std::size_t k = 0; k < samples.size(); ++k)
    backend(rows).copy(samples[k].*part, row_of(rows, static_cast<std::int64_t>(k)));
  return rows;
}

}  // namespace

Batch default_collate(const std::vector<Sample>& samples, std::span<const std::int64_t> indices) {
  require(!samples.empty(), "default_collate: no samples");
  return {stacked(samples, &Sample::input, "input", indices),
          stacked(samples, &Sample::target, "target", indices)};
}

std::vector<Sample> rows_of(const Batch& batch) {
  std::vector<Sample> rows;
  for (std::int64_t i = 0; i < batch.size(); ++i)
    rows.push_back({row_of(batch.input, i), row_of(batch.target, i)});
  return rows;
}

Batch SampleDataset::get_epoch_batch(const Draw& draw,
                                     std::span<const std::int64_t> indices) const {
  return default_collate(get_samples(draw, indices), indices);
}

std::vector<Sample> SampleDataset::get_samples(const Draw& draw,
                                               std::span<const std::int64_t> indices) const {
  std::vector<Sample> samples;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    require<ShapeError>(indices[k] >= 0 && indices[k] < size(), "sample ", indices[k],
                        " was asked for, but the data set has ", size(), " samples");
    samples.push_back(get_epoch_sample(draw.stream(k), indices[k]));
  }
  return samples;
}

IterableDataset::Next IterableDataset::open_at(std::uint64_t epoch, std::int64_t first) const {
  Next next = open(epoch);
  for (std::int64_t i = 0; i < first && next(); ++i) continue;
  return next;
}

}  // namespace rondo::data
