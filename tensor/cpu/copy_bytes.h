#pragma once
// A memcpy that is as fast when source and target are not aligned alike. From about 2 KB on,
// glibc's memcpy executes `rep movsb`. On some of AMD's processors that copies byte by byte if the
// target lies up to 64 bytes behind the source, counted within their pages: on a Zen 4, a row of
// 3 KB that moves by one float takes 14 times as long as with vector moves.

#include <cstring>

#include "tensor/cpu/isa/table.h"

namespace rondo::cpu {

/// Copies `bytes` bytes; the two must not overlap.
inline void copy_bytes(char* to, const char* from, std::size_t bytes) {
  constexpr std::size_t least = 2048, line = 64;
  if (bytes < least || (to - from) % line == 0) {
    std::memcpy(to, from, bytes);
  } else {
    kernels().elementwise.copy(from, to, static_cast<std::int64_t>(bytes));
  }
}

}  // namespace rondo::cpu
