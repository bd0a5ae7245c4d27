#pragma once
// DeviceBatches: the batches of a loader, copied to a device.
//
//   for (auto& [images, labels] : DeviceBatches(loader, device)) …
//
// While the GPU works on a batch, the next one is transferred: it is copied into pinned memory,
// which the GPU can read directly, and from there, on a separate stream, into reserved memory on
// the device. Neither the host nor the compute stream waits for the bus. On the CPU, and if the
// loader's batches are already on the device, batches are passed through unchanged.

#include <iterator>
#include <memory>

#include "data/loader.h"
#include "tensor/cuda.h"

namespace rondo::data {

class DeviceBatches {
 public:
  class Iterator;
  /// Throws DeviceError if the device does not exist.
  DeviceBatches(DataLoader& loader, Device device) : loader_(loader), device_(device) {
    if (device.is_cuda()) cuda::require_device(device.index);
  }

  /// Begins an epoch of the loader.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  DataLoader& loader_;
  Device device_;
};

class DeviceBatches::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  Iterator(DataLoader::Iterator batches, Device device);
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;
  ~Iterator();

  Batch& operator*() const { return *current_; }
  Batch* operator->() const { return current_.get(); }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return current_ == nullptr; }

 private:
  class Lane;
  void take();

  DataLoader::Iterator batches_;
  Device device_;
  std::unique_ptr<Lane> lane_;  // null: batches are passed through
  std::unique_ptr<Batch> current_;
};

}  // namespace rondo::data
