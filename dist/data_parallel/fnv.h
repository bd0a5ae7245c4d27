#pragma once
// FNV-1a (Fowler, Noll, Vo), 64 bits: distinguishes texts that were not made to collide.

#include <cstdint>
#include <string_view>

namespace rondo::dist {

inline std::uint64_t fnv(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace rondo::dist
