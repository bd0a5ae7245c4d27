#pragma once
// An image data set in memory, scaled once. Scaling is not random, so a transform would repeat the
// same work in each epoch.

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace rondo::data {

/// The images scaled to height × width, as `resize` of data/image_ops.h scales them; same labels
/// and classes. Throws Error or ShapeError as `resize` does.
std::shared_ptr<ImageDataset> resized(const ImageDataset& dataset, std::int64_t height,
                                      std::int64_t width);

}  // namespace rondo::data
