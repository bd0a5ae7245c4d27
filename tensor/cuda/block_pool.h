#pragma once
// BlockPool: the bookkeeping of a caching allocator for memory that streams use.
//
// Why not cudaMalloc and cudaFree: both wait for the device, some hundred microseconds each, and a
// training step allocates hundreds of times. The pool keeps what it once got, in segments that are
// cut into blocks.
//
// How a block can be given out again while the GPU is still at work: a stream does one thing after
// the other, so whatever the next owner puts into the *same* stream comes after all that the last
// owner did there. Free blocks are therefore kept by stream, and no one waits. Only a block that
// other streams have used as well (`record_stream`) is held back until marks put into those streams
// when it was freed have been reached.
//
// Sizes are rounded up to 512 bytes. Requests of up to 1 MiB share segments of 2 MiB; up to 10 MiB,
// segments of 20 MiB; larger ones have a segment of their own, rounded to 2 MiB. A block is split
// when what is left is worth keeping, and merged with its free neighbours when it comes back.
//
// It knows no CUDA: a Source brings memory and marks, so that tests can bring their own.

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

/// A stream, known by its device and handle alone.
struct StreamId {
  int device = 0;
  void* handle = nullptr;
  auto operator<=>(const StreamId&) const = default;
};

/// Thread-safe.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    /// A segment, or null where there is not so much.
    virtual void* allocate(std::size_t bytes) = 0;
    /// Only called when nothing uses the segment any more, or to wait until nothing does.
    virtual void free(void* segment) noexcept = 0;
    /// Says, whenever it is called, whether all that is in the stream now has been done.
    virtual std::function<bool()> mark(StreamId stream) = 0;
  };

  explicit BlockPool(std::unique_ptr<Source> source);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// At least `bytes` > 0 bytes, aligned to 512, for use in `stream`; `tag` says by whom, in what
  /// report() lists. Null where neither the pool nor, after the pool has given back all it can
  /// spare, the source has so much.
  void* allocate(std::size_t bytes, StreamId stream, const char* tag);
  void free(void* data) noexcept;
  /// Whether this is the address of a block that is in use.
  bool owns(void* data) const;
  /// `stream` uses the block too: freed, it waits for what is in that stream by then.
  void record_stream(void* data, StreamId stream);

  /// Gives all segments back of which no part is in use.
  void empty_cache() noexcept;
  MemoryStats stats() const;
  void reset_peak();
  /// "3.2 GiB in 214 blocks: activations 2.9 GiB, parameters 0.3 GiB; 1.1 GiB lie unused", for the
  /// sentence of an out-of-memory error.
  std::string report() const;

 private:
  struct Block;
  struct BySize {
    bool operator()(const Block* a, const Block* b) const;
  };
  struct Waiting {
    Block* block;
    std::vector<std::function<bool()>> marks;
  };
  using FreeBlocks = std::set<Block*, BySize>;

  FreeBlocks& free_blocks(const Block& block);
  Block* find(std::size_t bytes, StreamId stream);
  Block* new_segment(std::size_t bytes, StreamId stream);
  void split(Block* block, std::size_t bytes);
  void make_free(Block* block);
  Block* merge(Block* block, Block* with);
  void collect();
  std::size_t release_segments() noexcept;

  mutable std::mutex mutex_;
  std::unique_ptr<Source> source_;
  FreeBlocks small_, large_;
  std::unordered_map<void*, Block*> in_use_;
  std::vector<Waiting> waiting_;
  MemoryStats stats_;
};

}  // namespace rondo::cuda
