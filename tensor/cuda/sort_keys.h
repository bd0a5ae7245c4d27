#pragma once
// Sorting unsigned keys, segment by segment, and with each key its place: CUB's part of sort.cu.
// The two sorts are a file each, since CUB takes long to compile. (It has a third, which compares;
// that one takes over a minute to compile, and with more than 500 segments it waits for the GPU.)

#include <cstdint>

namespace rondo::cuda {

/// `segments` runs of `length` keys, one after the other, on the GPU.
template <class Key>
struct Segments {
  const Key* keys;
  Key* sorted_keys;
  const std::int32_t* places;
  std::int32_t* sorted_places;
  std::int64_t segments, length;
};

// All ascending and stable, on the device's current stream, for keys of 32 and 64 bits.

/// With the whole GPU for one segment after the other: for few long ones.
template <class Key>
void sort_one_by_one(int device, const Segments<Key>& s);  // sort_one_by_one.cu

/// A segment to a block: for many segments, or short ones.
template <class Key>
void sort_many_segments(int device, const Segments<Key>& s);  // sort_many_segments.cu

}  // namespace rondo::cuda
