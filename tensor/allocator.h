#pragma once
// Allocator: the source of a storage's memory. The CPU's allocator caches blocks
// (tensor/cpu/allocator.h), because fresh pages cost more than the arithmetic done on them. A
// Communicator has its own allocator.

#include <cstddef>

#include "tensor/device.h"

namespace rondo {

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  /// Allocates `bytes` > 0 bytes, aligned to 64. Throws Error with the size when out of memory.
  virtual void* allocate(std::size_t bytes) = 0;
  /// `bytes` is the size that was passed to allocate.
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
};

/// The default allocator of a device.
Allocator& allocator_of(Device device);

/// Names the purpose of the memory that the calling thread allocates while this object exists. When
/// a GPU is out of memory, the error lists the purposes ("parameters 0.9 GiB, optimizer states 1.8
/// GiB, …"). The name must be a string literal.
class AllocationTag {
 public:
  explicit AllocationTag(const char* name);
  ~AllocationTag();
  AllocationTag(const AllocationTag&) = delete;
  AllocationTag& operator=(const AllocationTag&) = delete;
  /// The innermost existing tag of this thread; without one, "activations and other tensors".
  static const char* current();

 private:
  const char* before_;
};

}  // namespace rondo
