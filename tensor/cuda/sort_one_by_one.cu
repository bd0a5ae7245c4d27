#if defined(__CUDACC__)  // CUB has no sort for the host
#include <cub/device/device_radix_sort.cuh>

#include "tensor/cuda/sort_keys.cuh"

namespace rondo::cuda {

template <class Key>
void sort_one_by_one(int device, const Segments<Key>& s) {
  DeviceGuard guard(device);
  cudaStream_t stream = current_stream(device).get();
  for (std::int64_t at = 0; at < s.segments * s.length; at += s.length) {
    with_scratch(device, [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(scratch, bytes, s.keys + at, s.sorted_keys + at,
                                             s.places + at, s.sorted_places + at, s.length, 0,
                                             s.bits, stream);
    });
  }
}

template void sort_one_by_one(int, const Segments<std::uint32_t>&);
template void sort_one_by_one(int, const Segments<std::uint64_t>&);

}  // namespace rondo::cuda
#endif
