#pragma once
// ResidentDataset: images in the memory of the device that trains on them.
//
// CIFAR-10 is 180 MB as bytes, which fits easily on a GPU. Then only the indices of a batch's
// samples and the choices of its augmentation cross the bus. A DataLoader over it (without workers,
// because the GPU does the work) and an ImageTransform give batches on the device, bit-identical to
// those made on the CPU.

#include "data/dataset.h"

namespace rondo::data {

class ResidentDataset final : public Dataset {
 public:
  /// Copies the images to the device.
  ResidentDataset(const ImageDataset& images, Device device);

  std::int64_t size() const override { return images_.size(0); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }

 private:
  Tensor images_, labels_;
  std::vector<std::string> class_names_;
};

}  // namespace rondo::data
