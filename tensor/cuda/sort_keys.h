#pragma once
// Sorts unsigned keys and their positions, segment by segment. The two sorts of CUB are in separate
// files, since CUB takes long to compile. (CUB has a third sort, which compares; it
// takes over a minute to compile, and with more than 500 segments it waits for the GPU.)

#include <cstdint>

namespace rondo::cuda {

/// `segments` contiguous runs of `length` keys, on the GPU.
template <class Key>
struct Segments {
  const Key* keys;
  Key* sorted_keys;
  const std::int32_t* places;
  std::int32_t* sorted_places;
  std::int64_t segments, length;
  int bits = 8 * sizeof(Key);  // the low bits of the keys, in which they differ
};

// All sorts are ascending and stable, on the device's current stream, for keys of 32 and 64 bits.

/// Sorts with one of the two below, or on the host where kernels are simulated.
template <class Key>
void sort_segments(int device, const Segments<Key>& s);  // sort.cu

/// Uses the whole GPU for one segment after the other: for few long segments.
template <class Key>
void sort_one_by_one(int device, const Segments<Key>& s);  // sort_one_by_one.cu

/// Uses one block per segment: for many segments, or short ones.
template <class Key>
void sort_many_segments(int device, const Segments<Key>& s);  // sort_many_segments.cu

}  // namespace rondo::cuda
