#pragma once
// CachingAllocator: keeps freed blocks for the next tensor of that size.
//
// Why: a training step allocates the same few hundred activations again and again. Fresh memory
// from the kernel arrives as zeroed 4 KiB pages, one fault each, which for an 8 MiB activation
// costs more than the ReLU written into it. A block that has been used once has its pages.
//
// How: sizes are rounded up to one of four steps per power of two (at most a quarter is added, and
// from 2 MiB on to a multiple of that, which for 2 to 4 MiB may be a half), and every class has a
// free list, last in first out, so that the block that comes back is the one most likely still in
// cache. Blocks of 2 MiB and more are aligned to huge pages and ask for them.

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/storage.h"

namespace rondo::cpu {

struct AllocatorStats {
  std::size_t in_use = 0;  // bytes handed out, rounded to their class
  std::size_t peak = 0;    // the most that in_use has been
  std::size_t cached = 0;  // bytes in the free lists
  std::uint64_t requests = 0,
                fresh = 0;  // allocations, and how many of them the system had to serve
};

/// Thread-safe.
class CachingAllocator final : public Allocator {
 public:
  static CachingAllocator& instance();
  /// False under AddressSanitizer: nothing is kept or rounded up, so that a use after free and a
  /// byte too many are seen.
  static bool keeps_blocks();

  Device device() const override { return Device::cpu(); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;

  AllocatorStats stats() const;
  void reset_peak();
  /// Gives all cached blocks back to the system.
  void empty_cache() noexcept;

  ~CachingAllocator() override;

 private:
  static constexpr std::size_t classes = 4 * 48;

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, classes> free_;
  AllocatorStats stats_;
};

/// A kernel's own memory, uninitialised, as long as it lives.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats)
      : storage_(static_cast<std::size_t>(floats) * sizeof(float), CachingAllocator::instance()) {}
  float* data() const { return static_cast<float*>(storage_.data()); }

 private:
  Storage storage_;
};

}  // namespace rondo::cpu
