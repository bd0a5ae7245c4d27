#include "tensor/cpu/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tensor/error.h"

namespace rondo::cpu {
namespace {

constexpr std::size_t smallest = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Class k holds blocks of (4 + k % 4) / 4 * 2^(6 + k / 4) bytes.
std::size_t class_of(std::size_t bytes) {
  std::size_t n = std::max(bytes, smallest) - 1;
  std::size_t shift = std::bit_width(n) - 3;  // the leading three bits select the step
  return 4 * (shift - 3) + ((n >> shift) & 3) + 1 - 4;
}

std::size_t class_bytes(std::size_t k) { return (4 + k % 4) << (4 + k / 4); }

}  // namespace

CachingAllocator& CachingAllocator::instance() {
  // Never destroyed: tensors in static storage may be destroyed later than any allocator.
  static auto* allocator = new CachingAllocator;
  return *allocator;
}

bool CachingAllocator::keeps_blocks() {
#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
  return false;
#endif
#elif defined(__SANITIZE_ADDRESS__)  // GCC
  return false;
#endif
  return true;
}

void* CachingAllocator::allocate(std::size_t bytes) {
  std::size_t k = class_of(bytes);
  require(k < classes, "out of memory: cannot allocate ", bytes, " bytes");
  std::size_t rounded = class_bytes(k);
  {
    std::lock_guard lock(mutex_);
    ++stats_.requests;
    stats_.in_use += rounded;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    if (!free_[k].empty()) {
      void* data = free_[k].back();
      free_[k].pop_back();
      stats_.cached -= rounded;
      return data;
    }
    ++stats_.fresh;
  }
  std::size_t alignment = rounded >= huge_page ? huge_page : smallest;
  std::size_t size = (rounded + alignment - 1) / alignment * alignment;
  if (!keeps_blocks()) size = std::max(bytes, std::size_t{1});
  void* data = nullptr;
  if (posix_memalign(&data, alignment, size) != 0) {
    empty_cache();
    if (posix_memalign(&data, alignment, size) != 0) data = nullptr;
  }
  if (data == nullptr) {
    std::lock_guard lock(mutex_);
    stats_.in_use -= rounded;
    throw Error(
        concat("out of memory: cannot allocate ", bytes, " bytes, ", stats_.in_use, " in use"));
  }
  if (alignment == huge_page) madvise(data, size, MADV_HUGEPAGE);  // only a hint, may fail
  return data;
}

void CachingAllocator::deallocate(void* data, std::size_t bytes) noexcept {
  std::size_t k = class_of(bytes);
  std::lock_guard lock(mutex_);
  stats_.in_use -= class_bytes(k);
  if (keeps_blocks()) {
    try {
      free_[k].push_back(data);
      stats_.cached += class_bytes(k);
      return;
    } catch (...) {  // no memory for the list itself: return the block instead
    }
  }
  std::free(data);
}

AllocatorStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.in_use;
}

void CachingAllocator::empty_cache() noexcept {
  std::lock_guard lock(mutex_);
  for (auto& blocks : free_) {
    for (void* block : blocks) std::free(block);
    blocks.clear();
  }
  stats_.cached = 0;
}

CachingAllocator::~CachingAllocator() { empty_cache(); }

}  // namespace rondo::cpu
