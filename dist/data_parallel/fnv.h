#pragma once
// FNV-1a (Fowler, Noll, Vo), a hash of 64 bits. It does not resist texts that are made to collide.

#include <cstdint>
#include <string_view>

namespace rondo::dist {

inline std::uint64_t fnv(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace rondo::dist
