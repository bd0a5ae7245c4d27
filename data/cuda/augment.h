#pragma once
// The augmentation of data/transforms.cpp on a GPU: what was drawn for each image on the host is
// carried out there, one element of the output a thread.

#include <span>
#include <vector>

#include "data/transforms.h"

namespace rondo::data {

/// What is the same for all images of a batch.
struct AugmentPlan {
  std::int64_t padding = 0;  // on all sides of the image, before the crop
  std::uint8_t fill = 0;     // of the padding
  std::vector<float> table;  // what byte b of channel c becomes: entry 256 c + b
};

/// out[n] = the crop of images[n] that drawn[n] says, flipped, erased and normalised. requires:
/// images u8 (N, C, H, W) contiguous and out (N, C, H', W') of u8 or f32, dense in either format,
/// on one GPU.
void augment_on_gpu(const Tensor& images, std::span<const Augmentation> drawn,
                    const AugmentPlan& plan, const Tensor& out);

}  // namespace rondo::data
