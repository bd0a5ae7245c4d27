#pragma once
// CachingAllocator: keeps freed blocks for later tensors of the same size class.
//
// Why: a training step allocates the same few hundred activations again and again. The kernel
// delivers fresh memory as zeroed 4 KiB pages, with one page fault each. For an 8 MiB activation
// this costs more than the ReLU that fills it. A block that was used before already has its pages.
//
// How: sizes are rounded up to one of four steps per power of two. This adds at most a quarter;
// from 2 MiB on, sizes are also rounded to a multiple of 2 MiB, which may add a half for 2 to 4
// MiB. Every size class has a free list, last in first out, so that a reused block is likely to be
// still in cache. Blocks of 2 MiB and more are aligned to huge pages and request them.

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/storage.h"

namespace rondo::cpu {

struct AllocatorStats {
  std::size_t in_use = 0;  // bytes handed out, rounded up to their size classes
  std::size_t peak = 0;    // the maximum of in_use so far
  std::size_t cached = 0;  // bytes in the free lists
  std::uint64_t requests = 0,
                fresh = 0;  // number of allocations, and how many of them came from the system
};

/// Thread-safe.
class CachingAllocator final : public Allocator {
 public:
  static CachingAllocator& instance();
  /// False under AddressSanitizer: no block is kept or rounded up, so that the sanitizer sees a use
  /// after free and an access one byte past the end.
  static bool keeps_blocks();

  Device device() const override { return Device::cpu(); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;

  AllocatorStats stats() const;
  void reset_peak();
  /// Returns all cached blocks to the system.
  void empty_cache() noexcept;

  ~CachingAllocator() override;

 private:
  static constexpr std::size_t classes = 4 * 48;

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, classes> free_;
  AllocatorStats stats_;
};

/// Uninitialised memory for a kernel; freed when this object is destroyed.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats)
      : storage_(static_cast<std::size_t>(floats) * sizeof(float), CachingAllocator::instance()) {}
  float* data() const { return static_cast<float*>(storage_.data()); }

 private:
  Storage storage_;
};

}  // namespace rondo::cpu
