// `resize` takes pictures of three interleaved channels. Planes of an image are scaled
// independently, so three planes at a time, of one image or of several, are such a picture.

#include "data/resized.h"

#include <algorithm>

#include "data/image_ops.h"
#include "tensor/backend.h"

namespace rondo::data {

std::shared_ptr<ImageDataset> resized(const ImageDataset& dataset, std::int64_t height,
                                      std::int64_t width) {
  const Tensor& images = dataset.images();
  const std::int64_t h = images.size(2), w = images.size(3);
  const std::int64_t planes = images.size(0) * images.size(1);
  const Tensor from = images.as_view({planes, h, w}, {h * w, w, 1}, images.storage_offset());
  Tensor out = Tensor::empty({images.size(0), images.size(1), height, width}, {.dtype = u8});
  const Tensor to = out.as_view({planes, height, width}, {height * width, width, 1}, 0);
  // Planes [first, first + n) with the plane as the last dimension.
  const auto interleaved = [](const Tensor& x, std::int64_t first, std::int64_t n) {
    const std::int64_t rows = x.size(1), columns = x.size(2);
    return x.as_view({rows, columns, n}, {columns, 1, rows * columns},
                     x.storage_offset() + first * rows * columns);
  };
  Tensor picture = Tensor::empty({h, w, 3}, {.dtype = u8});
  for (std::int64_t first = 0; first < planes; first += 3) {
    const std::int64_t n = std::min<std::int64_t>(planes - first, 3);
    backend(picture).copy(interleaved(from, first, n),
                          picture.as_view({h, w, n}, {w * 3, 3, 1}, 0));
    const Tensor scaled = resize(picture, height, width);
    backend(out).copy(
        scaled.as_view({height, width, n}, {width * 3, 3, 1}, scaled.storage_offset()),
        interleaved(to, first, n));
  }
  return std::make_shared<ImageDataset>(out, dataset.labels(), dataset.class_names());
}

}  // namespace rondo::data
