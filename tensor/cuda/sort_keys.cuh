#pragma once
// The body of sort_keys32.cu and sort_keys64.cu.

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <numeric>
#include <vector>

#include "tensor/cuda/launch.cuh"
#include "tensor/cuda/sort_keys.h"
#include "tensor/tensor.h"

namespace rondo::cuda {

/// Where segment i begins.
struct SegmentBegin {
  std::int64_t length;
  RONDO_HD std::int64_t operator()(std::int64_t i) const { return i * length; }
};

template <class Key>
void sort_on_host(const Segments<Key>& s) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(s.length));
  for (std::int64_t k = 0; k < s.segments; ++k) {
    const std::int64_t first = k * s.length;
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return s.keys[a] < s.keys[b]; });
    for (std::int64_t i = 0; i < s.length; ++i) {
      s.sorted_keys[first + i] = s.keys[order[static_cast<std::size_t>(i)]];
      s.sorted_places[first + i] = s.places[order[static_cast<std::size_t>(i)]];
    }
  }
}

/// Calls run(scratch, bytes), which says how many bytes it wants when scratch is null, and then
/// works.
template <class Run>
void with_scratch(int device, Run run) {
  std::size_t bytes = 0;
  check(run(nullptr, bytes));
  const Tensor scratch = Tensor::empty({static_cast<std::int64_t>(bytes) + 1},
                                       {.dtype = DType::u8, .device = Device::cuda(device)});
  check(run(scratch.data_ptr(), bytes));
}

/// CUB has three sorts for this. The plain one uses the whole GPU for one line: for few long ones.
/// Both segmented ones give a line to a block; the comparing one is the faster, but with more than
/// 500 lines it would order them by length first, on the host's say, which waits for the GPU.
template <class Key>
void sort_on_device(int device, const Segments<Key>& s) {
  constexpr std::int64_t most_without_waiting = 500, few = 64, long_line = std::int64_t{1} << 16;
  constexpr int all_bits = static_cast<int>(8 * sizeof(Key));
  DeviceGuard guard(device);
  cudaStream_t stream = current_stream(device).get();
  if (s.segments <= few && s.length >= long_line) {
    for (std::int64_t at = 0; at < s.segments * s.length; at += s.length) {
      with_scratch(device, [&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(scratch, bytes, s.keys + at, s.sorted_keys + at,
                                               s.places + at, s.sorted_places + at, s.length, 0,
                                               all_bits, stream);
      });
    }
    return;
  }
  const auto begins = thrust::make_transform_iterator(
      thrust::make_counting_iterator(std::int64_t{0}), SegmentBegin{s.length});
  if (s.segments <= most_without_waiting) {
    with_scratch(device, [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceSegmentedSort::StableSortPairs(
          scratch, bytes, s.keys, s.sorted_keys, s.places, s.sorted_places, s.segments * s.length,
          s.segments, begins, begins + 1, stream);
    });
    return;
  }
  // It counts elements in an int.
  const std::int64_t together = std::max<std::int64_t>(1, (std::int64_t{1} << 30) / s.length);
  for (std::int64_t first = 0; first < s.segments; first += together) {
    const std::int64_t segments = std::min(together, s.segments - first), at = first * s.length;
    with_scratch(device, [&](void* scratch, std::size_t& bytes) {
      return cub::DeviceSegmentedRadixSort::SortPairs(
          scratch, bytes, s.keys + at, s.sorted_keys + at, s.places + at, s.sorted_places + at,
          static_cast<int>(segments * s.length), static_cast<int>(segments), begins, begins + 1, 0,
          all_bits, stream);
    });
  }
}

template <class Key>
void sort_anywhere(int device, const Segments<Key>& s) {
  if (is_simulated()) return launch_on_host(device, [=] { sort_on_host(s); });
  sort_on_device(device, s);
}

}  // namespace rondo::cuda
