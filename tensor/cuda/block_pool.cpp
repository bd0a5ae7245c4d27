#include "tensor/cuda/block_pool.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "tensor/error.h"

namespace rondo::cuda {
namespace {

constexpr std::size_t KiB = std::size_t{1} << 10, MiB = std::size_t{1} << 20;
constexpr std::size_t granule = 512;          // all block sizes are multiples of it
constexpr std::size_t small_limit = 1 * MiB;  // requests up to this size share small segments
constexpr std::size_t small_segment = 2 * MiB;
constexpr std::size_t large_limit = 10 * MiB;  // requests up to this size share large segments
constexpr std::size_t large_segment = 20 * MiB;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

std::size_t segment_bytes(std::size_t bytes) {
  if (bytes <= small_limit) return small_segment;
  return bytes < large_limit ? large_segment : round_up(bytes, small_segment);
}

std::string text_of(std::size_t bytes) {
  const double size = static_cast<double>(bytes);
  char text[32];
  if (bytes >= 1024 * MiB) {
    std::snprintf(text, sizeof text, "%.1f GiB", size / static_cast<double>(1024 * MiB));
  } else if (bytes >= MiB) {
    std::snprintf(text, sizeof text, "%.1f MiB", size / static_cast<double>(MiB));
  } else {
    std::snprintf(text, sizeof text, "%.1f KiB", size / static_cast<double>(KiB));
  }
  return text;
}

}  // namespace

struct BlockPool::Block {
  char* data;
  std::size_t bytes;
  StreamId stream;
  bool small;  // belongs to a segment for small requests
  bool in_use = false;
  const char* tag = "";
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  std::vector<StreamId> also_used_by = {};

  bool is_segment() const { return before == nullptr && after == nullptr; }
};

bool BlockPool::BySize::operator()(const Block* a, const Block* b) const {
  return std::tuple(a->stream, a->bytes, a->data) < std::tuple(b->stream, b->bytes, b->data);
}

BlockPool::BlockPool(std::unique_ptr<Source> source, Unused unused)
    : source_(std::move(source)), unused_(unused) {}

// Blocks that are still in use belong to tensors in static storage: their memory is released with
// the process.
BlockPool::~BlockPool() {
  unused_ = Unused::may_be_returned;
  empty_cache();
  for (auto* blocks : {&small_, &large_})
    for (Block* block : *blocks) delete block;
  for (auto& [data, block] : in_use_) delete block;
  for (Waiting& waiting : waiting_) delete waiting.block;
}

void* BlockPool::allocate(std::size_t bytes, StreamId stream, const char* tag) {
  bytes = round_up(bytes, granule);
  std::lock_guard lock(mutex_);
  ++stats_.requests;
  collect();
  Block* block = find(bytes, stream);
  if (block == nullptr) block = new_segment(bytes, stream);
  if (block == nullptr && !waiting_.empty()) {
    collect(Wait::yes);
    block = find(bytes, stream);
    if (block == nullptr) block = new_segment(bytes, stream);
  }
  if (block == nullptr) return nullptr;
  split(block, bytes);
  block->in_use = true;
  block->tag = tag;
  in_use_.emplace(block->data, block);
  stats_.in_use += block->bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  ++stats_.blocks;
  return block->data;
}

void BlockPool::free(void* data) noexcept {
  std::lock_guard lock(mutex_);
  auto found = in_use_.find(data);
  if (found == in_use_.end()) return;
  Block* block = found->second;
  in_use_.erase(found);
  stats_.in_use -= block->bytes;
  --stats_.blocks;
  if (block->also_used_by.empty()) return make_free(block);
  try {
    Waiting waiting{block, {}};
    for (StreamId stream : block->also_used_by) waiting.marks.push_back(source_->mark(stream));
    waiting_.push_back(std::move(waiting));
    block->also_used_by.clear();
  } catch (...) {
    // The device is lost, or the host is out of memory, so it stays unknown when the block becomes
    // free. The block is never reused.
  }
}

bool BlockPool::owns(void* data) const {
  std::lock_guard lock(mutex_);
  return in_use_.contains(data);
}

void BlockPool::record_stream(void* data, StreamId stream) {
  std::lock_guard lock(mutex_);
  auto found = in_use_.find(data);
  require(found != in_use_.end(), "record_stream: this memory does not belong to the pool");
  Block& block = *found->second;
  auto& others = block.also_used_by;
  if (stream != block.stream && std::find(others.begin(), others.end(), stream) == others.end())
    others.push_back(stream);
}

BlockPool::FreeBlocks& BlockPool::free_blocks(const Block& block) {
  return block.small ? small_ : large_;
}

/// The smallest free block of the stream that is large enough.
BlockPool::Block* BlockPool::find(std::size_t bytes, StreamId stream) {
  FreeBlocks& blocks = bytes <= small_limit ? small_ : large_;
  Block wanted{.data = nullptr, .bytes = bytes, .stream = stream, .small = false};
  auto found = blocks.lower_bound(&wanted);
  if (found == blocks.end() || (*found)->stream != stream) return nullptr;
  // Segments of large requests are not split for requests that a shared segment can serve.
  if (bytes > small_limit && bytes < large_limit && (*found)->bytes > 2 * large_segment)
    return nullptr;
  Block* block = *found;
  blocks.erase(found);
  return block;
}

BlockPool::Block* BlockPool::new_segment(std::size_t bytes, StreamId stream) {
  const std::size_t size = segment_bytes(bytes);
  void* data = source_->allocate(size);
  if (data == nullptr && release_segments() > 0) data = source_->allocate(size);
  if (data == nullptr) return nullptr;
  ++stats_.segments;
  stats_.reserved += size;
  return new Block{.data = static_cast<char*>(data),
                   .bytes = size,
                   .stream = stream,
                   .small = bytes <= small_limit};
}

/// Shrinks a block to `bytes`. The rest becomes a free block if it is large enough.
void BlockPool::split(Block* block, std::size_t bytes) {
  const std::size_t rest = block->bytes - bytes;
  if (rest < (block->small ? granule : small_limit)) return;
  auto* after = new Block{.data = block->data + bytes,
                          .bytes = rest,
                          .stream = block->stream,
                          .small = block->small,
                          .before = block,
                          .after = block->after};
  if (block->after != nullptr) block->after->before = after;
  block->after = after;
  block->bytes = bytes;
  free_blocks(*after).insert(after);
}

/// Adds a block that nothing uses to the free blocks, merged with its free neighbours.
void BlockPool::make_free(Block* block) {
  block->in_use = false;
  if (Block* b = block->before; b != nullptr && free_blocks(*b).contains(b))
    block = merge(b, block);
  if (Block* a = block->after; a != nullptr && free_blocks(*a).contains(a)) block = merge(block, a);
  free_blocks(*block).insert(block);
}

/// Merges two neighbours into the first one. Removes both from the free blocks.
BlockPool::Block* BlockPool::merge(Block* block, Block* with) {
  free_blocks(*block).erase(block);
  free_blocks(*with).erase(with);
  block->bytes += with->bytes;
  block->after = with->after;
  if (block->after != nullptr) block->after->before = block;
  delete with;
  return block;
}

/// Frees blocks that waited for other streams, if those streams have passed their marks.
void BlockPool::collect(Wait wait) {
  std::erase_if(waiting_, [&](Waiting& waiting) {
    std::erase_if(waiting.marks, [wait](const Mark& is_done) { return is_done(wait); });
    if (!waiting.marks.empty()) return false;
    make_free(waiting.block);
    return true;
  });
}

/// Returns unused segments to the source. Returns the number of bytes.
std::size_t BlockPool::release_segments() noexcept {
  if (unused_ == Unused::is_kept) return 0;
  std::size_t released = 0;
  for (auto* blocks : {&small_, &large_}) {
    std::erase_if(*blocks, [&](Block* block) {
      if (!block->is_segment()) return false;
      source_->free(block->data);
      released += block->bytes;
      delete block;
      return true;
    });
  }
  stats_.reserved -= released;
  return released;
}

void BlockPool::empty_cache() noexcept {
  std::lock_guard lock(mutex_);
  collect();
  release_segments();
}

MemoryStats BlockPool::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void BlockPool::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.in_use;
}

std::string BlockPool::report() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::size_t> tags;
  for (const auto& [data, block] : in_use_) tags[block->tag] += block->bytes;
  std::vector<std::pair<std::string, std::size_t>> largest(tags.begin(), tags.end());
  std::ranges::sort(largest, std::greater<>(), [](const auto& tag) { return tag.second; });
  std::string text = concat(text_of(stats_.in_use), " in ", stats_.blocks, " blocks");
  for (std::size_t i = 0; i < largest.size(); ++i)
    text += concat(i == 0 ? ": " : ", ", largest[i].first, ' ', text_of(largest[i].second));
  return concat(text, "; ", text_of(stats_.reserved - stats_.in_use), " are unused between them");
}

}  // namespace rondo::cuda
