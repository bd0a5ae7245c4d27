#pragma once
// Range: the elements [begin, end) of what a collective works on.

#include <cstdint>

namespace rondo::dist {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Part i of n nearly equal parts.
inline Range part(Range whole, std::int64_t i, std::int64_t n) {
  return {whole.begin + whole.size() * i / n, whole.begin + whole.size() * (i + 1) / n};
}

}  // namespace rondo::dist
