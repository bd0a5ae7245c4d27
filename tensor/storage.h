#pragma once
// Storage: a block of bytes on a device, shared by all tensors that view it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "tensor/allocator.h"

namespace rondo {

/// Data that a backend keeps with a storage for as long as the storage exists.
struct StorageAttachment {
  virtual ~StorageAttachment() = default;
};

class Storage {
 public:
  /// Allocates `bytes` uninitialised bytes.
  Storage(std::size_t bytes, Allocator& allocator)
      : data_(bytes ? allocator.allocate(bytes) : nullptr),
        bytes_(bytes),
        device_(allocator.device()),
        allocator_(&allocator) {}
  /// Memory that belongs to someone else; `release` runs when the last tensor releases it.
  Storage(void* data, std::size_t bytes, Device device, std::function<void()> release)
      : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}
  ~Storage() {
    if (allocator_ && data_) allocator_->deallocate(data_, bytes_);
    if (release_) release_();
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  std::unique_ptr<StorageAttachment> attachment;  // owned and guarded by the backend
  /// Counts all in-place writes to this storage, including those by tensors with separate version
  /// counters (set_data).
  std::atomic<std::uint64_t> writes = 0;

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
  Allocator* allocator_ = nullptr;
  std::function<void()> release_;
};

using StoragePtr = std::shared_ptr<Storage>;

}  // namespace rondo
