#pragma once
// Every libFuzzer target gives arbitrary bytes to a parser, which must return or throw IoError, and
// must not allocate more memory than its header promises for a file of that size. Anything else is
// a finding: another exception ends the process, and so do the sanitizers and `hold_at_most`.
//
// Each target is one file here. seeds.cpp makes its seeds, and tests/fuzz/run.sh runs it. Read
// next: idx.cpp.

#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "tensor/error.h"

namespace rondo::fuzz {

inline constexpr std::size_t kib = 1024, mib = 1024 * kib;

/// The memory that the thread has allocated since a parser was started, from the sanitizer's
/// allocator.
struct Held {
  bool watched = false;
  std::int64_t bytes = 0, most = 0;
};
inline thread_local Held held;

inline void on_malloc(const volatile void*, std::size_t bytes) {
  if (!held.watched) return;
  held.bytes += static_cast<std::int64_t>(bytes);
  if (held.bytes <= held.most) return;
  held.watched = false;
  std::fprintf(stderr, "fuzz: the parser holds %lld bytes, and may hold %lld\n",
               static_cast<long long>(held.bytes), static_cast<long long>(held.most));
  std::abort();  // here, so that the report has the stack
}
inline void on_free(const volatile void* data) {
  if (held.watched && data != nullptr)
    held.bytes -=
        static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(data)));
}

/// Runs a parser on the bytes of a file; it may allocate `most` bytes. Always returns 0, for
/// libFuzzer.
template <class Parse>
int hold_at_most(std::size_t most, Parse parse) {
  [[maybe_unused]] static const int installed =
      __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  held = {.watched = true, .bytes = 0, .most = static_cast<std::int64_t>(most)};
  try {
    parse();
  } catch (const IoError&) {
  }
  held.watched = false;
  return 0;
}

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

/// A file that exists only in memory, for parsers that take a path.
class MemoryFile {
 public:
  MemoryFile(const void* data, std::size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    const bool written = descriptor_ >= 0 && ::write(descriptor_, data, size) == ssize_t(size);
    if (!written) std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return concat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace rondo::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
