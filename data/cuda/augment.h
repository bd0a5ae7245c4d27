#pragma once
// The augmentation of data/transforms.cpp on a GPU. The host draws the choices for each image; the
// GPU applies them, with one thread for each element of the output.

#include <span>
#include <vector>

#include "data/transforms.h"

namespace rondo::data {

/// The parameters that are the same for all images of a batch.
struct AugmentPlan {
  std::int64_t padding = 0;  // on all sides of the image, before the crop
  std::uint8_t fill = 0;     // of the padding
  std::vector<float> table;  // the output for byte b of channel c: entry 256 c + b
};

/// out[n] = images[n], cropped as drawn[n] says, flipped, erased and normalised. Requires: images
/// u8 (N, C, H, W), contiguous; out (N, C, H', W'), u8 or f32, dense in either format; both on one
/// GPU.
void augment_on_gpu(const Tensor& images, std::span<const Augmentation> drawn,
                    const AugmentPlan& plan, const Tensor& out);

}  // namespace rondo::data
