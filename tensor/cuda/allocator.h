#pragma once
// The allocator of a GPU: a BlockPool over cudaMalloc, and the pinned memory for copies.

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

/// Allocates memory for the calling thread's current stream. There is one allocator per device,
/// never destroyed: tensors in static storage may be destroyed later than any allocator.
class CachingAllocator final : public Allocator {
 public:
  static CachingAllocator& of(int device);

  Device device() const override { return Device::cuda(device_); }
  /// Throws CudaError when out of memory, with a report of what holds the memory.
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;

  /// Records that `stream` uses this memory, in addition to the stream it was allocated for.
  void record_stream(void* data, const Stream& stream);
  MemoryStats stats() const;
  void reset_peak() { pool_.reset_peak(); }
  void empty_cache() noexcept { pool_.empty_cache(); }

  /// A separate pool, for a graph's capture. The caller may release it at any time: it exists as
  /// long as one of its blocks.
  std::shared_ptr<BlockPool> new_pool();

 private:
  explicit CachingAllocator(int device);

  int device_;
  BlockPool pool_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<BlockPool>> new_pools_;
  // The number of blocks in use from pools of new_pool.
  std::atomic<std::size_t> others_given_out_{0};
  std::unordered_map<void*, std::shared_ptr<BlockPool>> others_;
};

/// Records that `stream` uses x's memory as well (torch.Tensor.record_stream). After x is
/// destroyed, the memory is not reused before `stream` has finished the work that it contains at
/// that time. Throws Error if the memory does not belong to the caching allocator.
void record_stream(const Tensor& x, const Stream& stream);

/// Host memory that the GPU can read and write directly: only copies to and from such memory are
/// asynchronous to the host. Freed blocks are kept for reuse, like the GPU's own; a block is reused
/// when the streams that were recorded for it have finished using it.
class PinnedAllocator final : public Allocator {
 public:
  static PinnedAllocator& instance();

  Device device() const override { return Device::cpu(); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* data, std::size_t bytes) noexcept override;
  /// Whether `data` is the start of a block of this allocator that is in use.
  bool owns(void* data) const { return pool_.owns(data); }
  void record_stream(void* data, const Stream& stream);

 private:
  PinnedAllocator();

  BlockPool pool_;
};

/// Pinned memory that `user` reads or writes. It becomes free again when that stream has finished
/// using it.
StoragePtr pinned_storage(std::size_t bytes, const Stream& user);

}  // namespace rondo::cuda
