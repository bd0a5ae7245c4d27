#include "data/resident.h"

#include "tensor/backend.h"

namespace rondo::data {
namespace {

Tensor moved(const Tensor& x, Device device) {
  const Tensor there = Tensor::empty(x.shape(), {.dtype = x.dtype(), .device = device});
  backend(device).copy(x, there);
  return there;
}

Tensor rows(const Tensor& x, const Tensor& index) {
  Dims sizes = x.shape();
  sizes[0] = index.size(0);
  const Tensor y = Tensor::empty(sizes, {.dtype = x.dtype(), .device = x.device()});
  backend(x).index_select(x, 0, index, y);
  return y;
}

}  // namespace

ResidentDataset::ResidentDataset(const ImageDataset& images, Device device)
    : images_(moved(images.inputs(), device)),
      labels_(moved(images.targets(), device)),
      class_names_(images.class_names()) {}

Batch ResidentDataset::get_batch(std::span<const std::int64_t> indices) const {
  const Tensor index = Tensor::empty({static_cast<std::int64_t>(indices.size())}, {.dtype = i64});
  auto* to = index.data_ptr<std::int64_t>();
  for (const std::int64_t i : indices) {
    require<ShapeError>(i >= 0 && i < size(), "ResidentDataset: sample ", i,
                        " does not exist; the number of samples is ", size());
    *to++ = i;
  }
  const Tensor there = moved(index, images_.device());
  return {rows(images_, there), rows(labels_, there)};
}

}  // namespace rondo::data
