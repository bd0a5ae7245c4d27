#pragma once
// The allocator of a GPU: a BlockPool over cudaMalloc, and the pinned memory that copies want.

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensor/allocator.h"
#include "tensor/cuda/block_pool.h"
#include "tensor/cuda/stream.h"
#include "tensor/tensor.h"

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
  MemoryStats stats() const;
  void reset_peak() { pool_.reset_peak(); }
  void empty_cache() noexcept { pool_.empty_cache(); }

  /// A pool beside the usual one, for a graph's capture. Who holds it may let go at any time: it
  /// lives as long as a block of it.
  std::shared_ptr<BlockPool> new_pool();

 private:
  explicit CachingAllocator(int device);

  int device_;
  BlockPool pool_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<BlockPool>> new_pools_;
  // Blocks of those that are given out.
  std::atomic<std::size_t> others_given_out_{0};
  std::unordered_map<void*, std::shared_ptr<BlockPool>> others_;
};

/// x's memory is used in `stream` as well (torch.Tensor.record_stream): once x is gone, nobody gets
/// it before what lies in that stream by then is done. Throws Error for memory that is not the
/// caching allocator's.
void record_stream(const Tensor& x, const Stream& stream);

/// Host memory that the GPU can read and write by itself: only copies to and from such memory run
/// beside the host. Kept for reuse like the GPU's own; a block comes back when the streams that
/// were recorded for it are past its use.
class PinnedAllocator final : public Allocator {
 public:
  static PinnedAllocator& instance();

  Device device() const override { return Device::cpu(); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  /// Whether memory that begins here is this allocator's, and in use.
  bool owns(void* data) const { return pool_.owns(data); }
  void record_stream(void* data, const Stream& stream);

 private:
  PinnedAllocator();

  BlockPool pool_;
};

/// Pinned memory that `user` reads or writes: free again when that stream is past its use.
StoragePtr pinned_storage(std::size_t bytes, const Stream& user);

}  // namespace rondo::cuda
