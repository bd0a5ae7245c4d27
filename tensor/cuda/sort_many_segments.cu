// Sorts many lines of equal length in one call of CUB (sort.cu chooses).
#if defined(__CUDACC__)  // CUB has no sort for the host
#include <algorithm>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "tensor/cuda/sort_keys.cuh"

namespace rondo::cuda {

template <class Key>
void sort_many_segments(int device, const Segments<Key>& s) {
  DeviceGuard guard(device);
  cudaStream_t stream = current_stream(device).get();
  const auto begins = segment_begins(s.length);
  // CUB counts elements in an int.
  const std::int64_t together = std::max<std::int64_t>(1, (std::int64_t{1} << 30) / s.length);
  for (std::int64_t first = 0; first < s.segments; first += together) {
    const std::int64_t segments = std::min(together, s.segments - first), at = first * s.length;
    with_scratch(device, [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceSegmentedRadixSort::SortPairs(
          scratch, bytes, s.keys + at, s.sorted_keys + at, s.places + at, s.sorted_places + at,
          static_cast<int>(segments * s.length), static_cast<int>(segments), begins, begins + 1, 0,
          s.bits, stream);
    });
  }
}

template void sort_many_segments(int, const Segments<std::uint32_t>&);
template void sort_many_segments(int, const Segments<std::uint64_t>&);

}  // namespace rondo::cuda
#endif
