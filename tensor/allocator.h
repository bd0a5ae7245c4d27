#pragma once
// Allocator: where storages get their bytes. The CPU's is a caching one (tensor/cpu/allocator.h),
// since fresh pages cost more than the arithmetic done on them; a Communicator hands out its own.

#include <cstddef>

#include "tensor/device.h"

namespace rondo {

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  /// `bytes` > 0 bytes, aligned to 64; throws Error naming the size when there are none left.
  virtual void* allocate(std::size_t bytes) = 0;
  /// `bytes` is what was asked for.
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
};

/// The default allocator of a device.
Allocator& allocator_of(Device device);

/// Says what the calling thread allocates while this lives: a GPU that is out of memory tells what
/// holds it ("parameters 0.9 GiB, optimizer states 1.8 GiB, …"). The name is a literal.
class AllocationTag {
 public:
  explicit AllocationTag(const char* name);
  ~AllocationTag();
  AllocationTag(const AllocationTag&) = delete;
  AllocationTag& operator=(const AllocationTag&) = delete;
  /// The innermost that lives; "activations and other tensors" where there is none.
  static const char* current();

 private:
  const char* before_;
};

}  // namespace rondo
