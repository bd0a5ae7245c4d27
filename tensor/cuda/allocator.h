#pragma once
// The allocator of a GPU: a BlockPool over cudaMalloc, and the pinned memory that copies want.

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tensor/allocator.h"
#include "tensor/cuda/block_pool.h"
#include "tensor/cuda/stream.h"
#include "tensor/storage.h"

namespace rondo::cuda {

/// Memory for the calling thread's current stream. One for each device, never destroyed: tensors in
/// static storage may outlive any order of destruction.
class CachingAllocator final : public Allocator {
 public:
  static CachingAllocator& of(int device);

  Device device() const override { return Device::cuda(device_); }
  /// Throws CudaError when there is no memory left, saying what holds it.
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;

  /// `stream` uses this memory too, beside the one it was allocated for.
  void record_stream(void* data, const Stream& stream);
  MemoryStats stats() const { return pool_.stats(); }
  void reset_peak() { pool_.reset_peak(); }
  void empty_cache() noexcept { pool_.empty_cache(); }

  /// A pool beside the usual one, for a graph's capture. Who holds it may let go at any time: it
  /// lives as long as a block of it.
  std::shared_ptr<BlockPool> new_pool() const;

 private:
  explicit CachingAllocator(int device);

  int device_;
  BlockPool pool_;
  // Blocks of other pools that are given out.
  std::mutex mutex_;
  std::atomic<std::size_t> others_given_out_{0};
  std::unordered_map<void*, std::shared_ptr<BlockPool>> others_;
};

/// Host memory that the GPU can read and write by itself: only copies to and from such memory run
/// beside the host. Kept for reuse like the GPU's own; a block comes back when the streams that
/// were recorded for it are past its use.
class PinnedAllocator final : public Allocator {
 public:
  static PinnedAllocator& instance();

  Device device() const override { return Device::cpu(); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  void record_stream(void* data, const Stream& stream);

 private:
  PinnedAllocator();

  BlockPool pool_;
};

/// Pinned memory that `user` reads or writes: free again when that stream is past its use.
StoragePtr pinned_storage(std::size_t bytes, const Stream& user);

}  // namespace rondo::cuda
