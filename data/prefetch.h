#pragma once
// DeviceBatches: the batches of a loader, on the device that wants them.
//
//   for (auto& [images, labels] : DeviceBatches(loader, device)) …
//
// While the GPU works on a batch, the next one travels: it is copied into pinned memory, which the
// GPU can read by itself, and from there, on a stream of its own, into memory that waits for it on
// the device. Neither the host nor the stream that computes waits for the bus. On the CPU, and for
// a loader whose batches are on the device already, the batches pass through as they are.

#include <iterator>
#include <memory>

#include "data/loader.h"
#include "tensor/cuda.h"

namespace rondo::data {

class DeviceBatches {
 public:
  class Iterator;
  /// Throws DeviceError where there is no such device.
  DeviceBatches(DataLoader& loader, Device device) : loader_(loader), device_(device) {
    if (device.is_cuda()) cuda::require_device(device.index);
  }

  /// Starts the loader's epoch.
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
  std::unique_ptr<Lane> lane_;  // null: batches pass through
  std::unique_ptr<Batch> current_;
};

}  // namespace rondo::data
