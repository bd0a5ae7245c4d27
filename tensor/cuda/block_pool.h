#pragma once
// BlockPool: the bookkeeping of a caching allocator for memory used by streams.
//
// Why not cudaMalloc and cudaFree: both wait for the device, a few hundred microseconds each, and a
// training step allocates hundreds of times. The pool keeps the memory that it once got, in
// segments that are split into blocks.
//
// How a block can be reused while the GPU is still working: a stream runs its work in order. So all
// work that the next owner submits to the *same* stream runs after the work that the last owner
// submitted there. Free blocks are therefore kept per stream, and nobody waits. Only a block that
// other streams have used as well (`record_stream`) is held back. When it is freed, the pool puts
// marks into those streams, and the block is reused after all marks have been reached.
//
// Sizes are rounded up to 512 bytes. Requests of up to 1 MiB share segments of 2 MiB; requests of
// up to 10 MiB share segments of 20 MiB; larger ones get their own segment, rounded to 2 MiB. A
// block is split when the rest is worth keeping, and merged with its free neighbours when it is
// freed.
//
// The pool does not use CUDA itself: a Source provides memory and marks, so that tests can provide
// their own.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/cuda.h"

namespace rondo::cuda {

/// A stream, identified by its device and handle only.
struct StreamId {
  int device = 0;
  void* handle = nullptr;
  auto operator<=>(const StreamId&) const = default;
};

/// Thread-safe.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  enum class Wait { no, yes };
  /// Tells whether all work that was in a stream has finished. With Wait::yes it first waits for
  /// that work, if it can. It does not throw.
  using Mark = std::function<bool(Wait)>;
  class Source {
   public:
    virtual ~Source() = default;
    /// A segment, or null if there is not enough memory.
    virtual void* allocate(std::size_t bytes) = 0;
    /// Called only when nothing uses the segment, or to wait until nothing uses it.
    virtual void free(void* segment) noexcept = 0;
    /// A mark behind all work that is in the stream now.
    virtual Mark mark(StreamId stream) = 0;
  };
  /// What happens to segments without a used part. A graph's kernels hold addresses in blocks that
  /// were freed during the capture, so a graph's pool keeps them until it is destroyed.
  enum class Unused { may_be_returned, is_kept };

  explicit BlockPool(std::unique_ptr<Source> source, Unused unused = Unused::may_be_returned);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Allocates at least `bytes` > 0 bytes, aligned to 512, for use in `stream`. report() lists the
  /// memory under `tag`. Returns null if neither the pool nor the source has enough memory, even
  /// after the pool has returned all unused segments and has waited for the streams that still use
  /// freed blocks.
  void* allocate(std::size_t bytes, StreamId stream, const char* tag);
  void free(void* data) noexcept;
  /// Whether `data` is the address of a block that is in use.
  bool owns(void* data) const;
  /// Records that `stream` uses the block too. When the block is freed, it waits for the work that
  /// is in that stream then.
  void record_stream(void* data, StreamId stream);

  /// Returns all segments without a used part to the source.
  void empty_cache() noexcept;
  MemoryStats stats() const;
  void reset_peak();
  /// "3.2 GiB in 214 blocks: activations 2.9 GiB, parameters 0.3 GiB; 1.1 GiB are unused between
  /// them", for out-of-memory errors.
  std::string report() const;

 private:
  struct Block;
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  struct Waiting {
    Block* block;
    std::vector<Mark> marks;
  };
  using FreeBlocks = std::set<Block*, BySize>;

  FreeBlocks& free_blocks(const Block& block);
  Block* find(std::size_t bytes, StreamId stream);
  Block* new_segment(std::size_t bytes, StreamId stream);
  void split(Block* block, std::size_t bytes);
  void make_free(Block* block);
  Block* merge(Block* block, Block* with);
  void collect(Wait wait = Wait::no);
  std::size_t release_segments() noexcept;

  mutable std::mutex mutex_;
  std::unique_ptr<Source> source_;
  Unused unused_;
  FreeBlocks small_, large_;
  std::unordered_map<void*, Block*> in_use_;
  std::vector<Waiting> waiting_;
  MemoryStats stats_;
};

}  // namespace rondo::cuda
