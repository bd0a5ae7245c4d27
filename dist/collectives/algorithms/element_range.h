#pragma once
// ElementRange: the elements [begin, end) of what a collective works on.

#include <cstdint>

namespace rondo::dist {

struct ElementRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Part i of n nearly equal parts.
inline ElementRange part(ElementRange whole, std::int64_t i, std::int64_t n) {
  return {whole.begin + whole.size() * i / n, whole.begin + whole.size() * (i + 1) / n};
}

}  // namespace rondo::dist
