#ifdef RONDO_HAS_CUDA

#include "support/device_memory.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

// AddressSanitizer's, if the program is linked with it: these tests' own objects may come from a
// build without it (RONDO_TEST_OBJECTS).
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* data, std::size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* data, std::size_t bytes);
}

namespace rondo::test {
namespace {

constexpr std::size_t capacity = std::size_t{1} << 36;  // of addresses; pages are used when touched
constexpr std::size_t granule = DeviceBounds::granule, chunk_size = std::size_t{1} << 20;
constexpr int behind = 0xA5;

void poison(char* data, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(data, bytes);
}
void unpoison(char* data, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(data, bytes);
}

struct sigaction action_before;

/// Opens the memory while a kernel or copy runs. Otherwise says what the fault is; the instruction
/// then runs into the handler that was there before.
extern "C" void on_fault(int, siginfo_t* info, void*);

class Arena {
 public:
  static Arena& instance() {
    static auto* made = new Arena;
    return *made;
  }
  DeviceBounds bounds() const {
    return {reinterpret_cast<std::uint64_t>(begin_), capacity, valid_};
  }
  bool contains(const void* at) const { return at >= begin_ && at < begin_ + capacity; }

  void* allocate(std::size_t bytes) {
    const std::size_t taken = (bytes + granule - 1) / granule * granule + granule;
    std::lock_guard lock(mutex_);
    char* data = nullptr;
    if (auto found = free_.lower_bound(taken); found != free_.end() && found->first < 2 * taken) {
      data = found->second;
      free_.erase(found);
    } else {
      if (used_ + taken > capacity) std::abort();
      data = begin_ + used_;
      blocks_[data].taken = taken;
      used_ += taken;
    }
    Block& block = blocks_[data];
    block.size = bytes;
    block.in_use = true;
    set_valid(data, block, bytes);
    unpoison(data, block.taken);
    std::memset(open_view_of(data), 0xFF, bytes);
    std::memset(open_view_of(data) + bytes, behind, block.taken - bytes);
    poison(data + bytes, block.taken - bytes);
    return data;
  }
  void free(char* data) {
    std::lock_guard lock(mutex_);
    Block& block = blocks_.at(data);
    if (!std::exchange(block.in_use, false)) {
      std::fprintf(stderr, "a block of %zu bytes of a GPU's memory is freed twice\n", block.size);
      std::abort();
    }
    check_behind(data, block);
    set_valid(data, block, 0);
    std::memset(open_view_of(data), 0xFF, block.size);  // what is read later is NaN or out of range
    poison(data, block.taken);
    free_.emplace(block.taken, data);
  }
  std::size_t in_use() {
    std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(blocks_, [](const auto& block) { return block.second.in_use; }));
  }
  void begin() { ++running_; }
  /// Work that only asks whether it may begin touches no memory, and costs no system call.
  void end() {
    if (--running_ > 0) return;
    const Spin lock(busy_);
    if (running_ > 0) return;  // the next end will close
    for (; open_count_ > 0; --open_count_) protect(open_chunks_[open_count_ - 1], PROT_NONE);
  }
  /// Called by a signal handler. Opens only the chunk, because the time of mprotect grows with the
  /// number of pages.
  bool open(const void* at) {
    if (running_ == 0) return false;
    const Spin lock(busy_);
    const auto chunk = static_cast<std::size_t>(static_cast<const char*>(at) - begin_) / chunk_size;
    open_chunks_[open_count_++] = chunk;
    protect(chunk, PROT_READ | PROT_WRITE);
    return true;
  }

 private:
  struct Block {
    std::size_t size = 0, taken = 0;  // in bytes: asked for, and with the space behind it
    bool in_use = false;
  };

  /// The first `bytes` of the block belong to it.
  void set_valid(char* data, const Block& block, std::size_t bytes) {
    for (std::size_t at = 0; at < block.taken; at += granule)
      valid_[(static_cast<std::size_t>(data - begin_) + at) / granule] =
          static_cast<std::uint16_t>(at < bytes ? std::min(granule, bytes - at) : 0);
  }
  void check_behind(char* data, const Block& block) {
    const char* view = open_view_of(data);
    if (std::all_of(view + block.size, view + block.taken,
                    [](char c) { return c == static_cast<char>(behind); }))
      return;
    std::fprintf(stderr, "a kernel wrote behind a block of %zu bytes of a GPU's memory\n",
                 block.size);
    std::abort();
  }

  Arena() {
    const int file = memfd_create("memory of simulated GPUs", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, capacity) != 0) throw std::bad_alloc();
    auto mapped = [&](int rights) {
      void* range = mmap(nullptr, capacity, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
      if (range == MAP_FAILED) throw std::bad_alloc();
      return static_cast<char*>(range);
    };
    begin_ = mapped(PROT_NONE);
    open_view_ = mapped(PROT_READ | PROT_WRITE);
    close(file);
    void* valid = mmap(nullptr, capacity / granule * sizeof(*valid_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (valid == MAP_FAILED) throw std::bad_alloc();
    valid_ = static_cast<std::uint16_t*>(valid);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &action_before);
  }
  /// The same bytes for this class, at an address that is never closed.
  char* open_view_of(char* data) const { return open_view_ + (data - begin_); }
  void protect(std::size_t chunk, int rights) {
    if (mprotect(begin_ + chunk * chunk_size, chunk_size, rights) != 0) std::abort();
  }
  /// A lock that a signal handler may take: its holders touch no memory of a GPU.
  struct Spin {
    explicit Spin(std::atomic_flag& busy) : busy_(busy) {
      while (busy_.test_and_set()) sched_yield();
    }
    ~Spin() { busy_.clear(); }
    std::atomic_flag& busy_;
  };

  std::mutex mutex_;
  char *begin_ = nullptr, *open_view_ = nullptr;
  std::uint16_t* valid_ = nullptr;
  std::size_t used_ = 0;
  std::atomic<int> running_ = 0;
  std::atomic_flag busy_;
  std::array<std::size_t, 4 * capacity / chunk_size> open_chunks_;  // two threads may open one
  std::size_t open_count_ = 0;
  std::map<char*, Block> blocks_;
  std::multimap<std::size_t, char*> free_;
};

void on_fault(int, siginfo_t* info, void*) {
  constexpr std::string_view text = "the host touched a GPU's memory outside of a kernel or copy\n";
  if (Arena::instance().contains(info->si_addr)) {
    if (Arena::instance().open(info->si_addr)) return;
    (void)!write(STDERR_FILENO, text.data(), text.size());
  }
  sigaction(SIGSEGV, &action_before, nullptr);
}

}  // namespace

void* allocate_device_memory(std::size_t bytes) { return Arena::instance().allocate(bytes); }
void free_device_memory(void* data) noexcept {
  if (data != nullptr) Arena::instance().free(static_cast<char*>(data));
}
bool is_device_memory(const void* data) { return Arena::instance().contains(data); }
std::size_t device_blocks_in_use() { return Arena::instance().in_use(); }
DeviceBounds device_bounds() { return Arena::instance().bounds(); }
DeviceAccess::DeviceAccess() { Arena::instance().begin(); }
DeviceAccess::~DeviceAccess() { Arena::instance().end(); }

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
