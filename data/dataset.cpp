// Gathering rows: a batch from memory needs one memcpy per sample.

#include "data/dataset.h"

#include <cstring>

#include "data/samples.h"

namespace rondo::data {
namespace {

/// out[k] = rows[indices[k]]. Runs in worker threads, so it starts no threads of its own.
Tensor gather_rows(const Tensor& rows, std::span<const std::int64_t> indices) {
  Dims sizes = rows.shape();
  const std::int64_t count = sizes[0];
  sizes[0] = static_cast<std::int64_t>(indices.size());
  Tensor out = Tensor::empty(sizes, {.dtype = rows.dtype()});
  const std::int64_t row_bytes = count == 0 ? 0 : rows.nbytes() / count;
  const auto* from = static_cast<const char*>(rows.data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  for (const std::int64_t index : indices) {
    require<ShapeError>(index >= 0 && index < count, "sample ", index,
                        " was asked for, but the data set has ", count, " samples");
    if (row_bytes > 0)
      std::memcpy(to, from + index * row_bytes, static_cast<std::size_t>(row_bytes));
    to += row_bytes;
  }
  return out;
}

}  // namespace

std::vector<Sample> Dataset::get_samples(const Draw& draw,
                                         std::span<const std::int64_t> indices) const {
  return rows_of(get_epoch_batch(draw, indices));
}

const char* name_of(Split split) { return split == Split::train ? "train" : "test"; }

const std::vector<std::string>& Dataset::class_names() const {
  static const std::vector<std::string> none;
  return none;
}

TensorDataset::TensorDataset(Tensor inputs, Tensor targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  for (const Tensor* tensor : {&inputs_, &targets_}) {
    const char* role = tensor == &inputs_ ? "inputs" : "targets";
    require<ShapeError>(tensor->dim() > 0 && tensor->is_contiguous(), "TensorDataset: ", role,
                        " of shape ", tensor->shape(), " should be contiguous rows");
    require<DeviceError>(tensor->device().is_cpu(), "TensorDataset: ", role, " are on ",
                         tensor->device(), ", but must be on the CPU");
  }
  require<ShapeError>(inputs_.size(0) == targets_.size(0), "TensorDataset: ", inputs_.size(0),
                      " inputs but ", targets_.size(0), " targets");
}

Batch TensorDataset::get_batch(std::span<const std::int64_t> indices) const {
  return {gather_rows(inputs_, indices), gather_rows(targets_, indices)};
}

ImageDataset::ImageDataset(Tensor images, Tensor labels, std::vector<std::string> class_names)
    : TensorDataset(std::move(images), std::move(labels)), class_names_(std::move(class_names)) {
  require<DTypeError>(this->images().dtype() == u8 && this->labels().dtype() == i64,
                      "ImageDataset: images should be u8 and labels i64, not ",
                      this->images().dtype(), " and ", this->labels().dtype());
  require<ShapeError>(this->images().dim() == 4 && this->labels().dim() == 1,
                      "ImageDataset: images ", this->images().shape(), " and labels ",
                      this->labels().shape(), " should be (N, C, H, W) and (N)");
  const auto classes = static_cast<std::int64_t>(class_names_.size());
  const auto* label = this->labels().data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < size(); ++i) {
    require(label[i] >= 0 && label[i] < classes, "ImageDataset: sample ", i, " has label ",
            label[i], ", but there are ", classes, " classes");
  }
}

}  // namespace rondo::data
