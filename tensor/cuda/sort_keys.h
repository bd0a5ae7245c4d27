#pragma once
// Sorting unsigned keys, segment by segment, and with each key its place: CUB's part of sort.cu.
// Two files of a few lines each, since CUB takes long to compile.

#include <cstdint>

namespace rondo::cuda {

/// `segments` runs of `length` keys, one after the other.
template <class Key>
struct Segments {
  const Key* keys;
  Key* sorted_keys;
  const std::int32_t* places;
  std::int32_t* sorted_places;
  std::int64_t segments, length;
};

/// Ascending and stable.
void sort_segments(int device, const Segments<std::uint32_t>& s);  // sort_keys32.cu
void sort_segments(int device, const Segments<std::uint64_t>& s);  // sort_keys64.cu

}  // namespace rondo::cuda
