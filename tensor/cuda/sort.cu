// Sorting lines: elements are mapped to unsigned keys with the same order, the keys are sorted
// together with their positions, and the values are fetched from these positions. So NVIDIA's CUB
// must support only two kinds of keys (sort_keys.h), NaN counts as the largest and -0 equals 0, and
// the order is stable in both directions: descending is ascending by the complements of the keys.

#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/cuda/sort_keys.h"
#include "tensor/sort_key.h"

namespace rondo::cuda {
namespace {

template <class C>
struct MakeKeys {
  Lines<3> lines;  // x, values, indices
  std::int64_t length;
  bool descending;
  SortKey<C>* keys;
  std::int32_t* places;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t line = i / length, place = i - line * length;
    const char* from = lines.starts.locate(line).at[0] + place * lines.steps[0];
    const SortKey<C> key = sort_key(load<C>(lines.starts.dtypes[0], from));
    keys[i] = descending ? ~key : key;
    places[i] = static_cast<std::int32_t>(place);
  }
};

/// Copies the first `kept` elements of each sorted line.
template <class Word>
struct Fetch {
  Lines<3> lines;
  std::int64_t length, kept;
  const std::int32_t* places;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t line = i / kept, rank = i - line * kept;
    const std::int64_t place = places[line * length + rank];
    const auto at = lines.starts.locate(line);
    *reinterpret_cast<Word*>(at.at[1] + rank * lines.steps[1]) =
        *reinterpret_cast<const Word*>(at.at[0] + place * lines.steps[0]);
    *reinterpret_cast<std::int64_t*>(at.at[2] + rank * lines.steps[2]) = place;
  }
};

/// The same as the GPU's sort, on the host.
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

void sort_lines(int device, const Tensor& x, std::int64_t dim, bool descending, std::int64_t kept,
                const Tensor& values, const Tensor& indices) {
  const std::int64_t n = size_along(x, dim);
  if (x.numel() == 0 || kept == 0) return;
  require<ShapeError>(n <= 0x7fffffff, "sort: lines of ", n,
                      " elements are too long; at most 2^31 - 1");
  const Lines<3> lines(dim, {&x, &values, &indices});
  visit_compute_type(x.dtype(), [&]<class C>() {
    using Key = SortKey<C>;
    auto scratch = [&](std::size_t bytes) {
      return Tensor::empty({x.numel() * static_cast<std::int64_t>(bytes)},
                           {.dtype = u8, .device = x.device()});
    };
    const Tensor memory[] = {scratch(sizeof(Key)), scratch(sizeof(Key)), scratch(4), scratch(4)};
    auto* keys = static_cast<Key*>(memory[0].data_ptr());
    auto* places = static_cast<std::int32_t*>(memory[2].data_ptr());
    auto* sorted = static_cast<std::int32_t*>(memory[3].data_ptr());
    for_each(device, x.numel(), MakeKeys<C>{lines, n, descending, keys, places});
    sort_segments<Key>(device, {.keys = keys,
                                .sorted_keys = static_cast<Key*>(memory[1].data_ptr()),
                                .places = places,
                                .sorted_places = sorted,
                                .segments = lines.count,
                                .length = n});
    visit_word(x.dtype(), [&]<class Word>() {
      for_each(device, lines.count * kept, Fetch<Word>{lines, n, kept, sorted});
    });
  });
}

}  // namespace

template <class Key>
void sort_segments(int device, const Segments<Key>& s) {
  if (runs_loops()) return launch_on_host(device, [=] { sort_on_host(s); });
#if defined(__CUDACC__)
  constexpr std::int64_t few = 64, long_line = std::int64_t{1} << 16;
  if (s.segments == 1 || (s.segments <= few && s.length >= long_line))
    return sort_one_by_one(device, s);
  sort_many_segments(device, s);
#endif
}

template void sort_segments(int, const Segments<std::uint32_t>&);
template void sort_segments(int, const Segments<std::uint64_t>&);

void CudaBackend::do_sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                          const Tensor& indices) {
  sort_lines(device_, x, dim, descending, size_along(x, dim), values, indices);
}

void CudaBackend::do_topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
                          const Tensor& indices) {
  sort_lines(device_, x, dim, largest, size_along(values, dim), values, indices);
}

}  // namespace rondo::cuda
