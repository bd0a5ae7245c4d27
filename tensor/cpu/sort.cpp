// Sorting along one dimension: stable; NaN counts as the largest, as in PyTorch.
//
// topk is the start of the same order: among equal elements, those with smaller indices come first
// (stability), so that topk(x, k) is exactly the first k of sort(x). It uses a partial sort, or for
// larger k a selection followed by a sort of the selected elements. In a long line it looks only at
// elements that come before a pivot. A sample determines the pivot so that slightly more than k
// elements come before it.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t longest_heap = 64;  // beyond it, n log k is more than n + k log k

template <class C>
struct Keyed {
  C key;
  std::int64_t index;
};

/// Whether a comes before b in the requested order. The index makes the order total, so any
/// algorithm gives a "stable" result.
template <class C>
[[gnu::always_inline]] inline bool before(const Keyed<C>& a, const Keyed<C>& b, bool descending) {
  const C low = descending ? b.key : a.key, high = descending ? a.key : b.key;
  if (low < high || (low == low && high != high)) return true;
  if (high < low || (high == high && low != low)) return false;
  return a.index < b.index;
}

constexpr std::int64_t shortest = 512;  // lines of which a sample is taken

/// Fills `keyed` with candidates for the first k elements of the line: all elements, or, if k is a
/// small part of a long line, slightly more than k.
template <class C>
void candidates(const std::vector<C>& line, std::int64_t k, bool descending,
                std::vector<Keyed<C>>& keyed) {
  const std::int64_t n = std::ssize(line), sample = std::min<std::int64_t>(2048, n / 8);
  keyed.clear();
  if (n >= shortest && k <= n / 8) {
    const double step = static_cast<double>(n) / static_cast<double>(sample);
    for (std::int64_t i = 0; i < sample; ++i)
      keyed.push_back({line[static_cast<std::int64_t>(static_cast<double>(i) * step)], i});
    // About a fraction k / n of the sample comes before the k-th element, with a standard deviation
    // of the root of that number. With four standard deviations added, there are too few candidates
    // once in 30,000 lines.
    const double expected = static_cast<double>(k * sample) / static_cast<double>(n);
    const auto rank =
        std::min(sample - 1, static_cast<std::int64_t>(expected + 4 * std::sqrt(expected) + 4));
    auto compare = [&](const auto& a, const auto& b) { return before(a, b, descending); };
    std::nth_element(keyed.begin(), keyed.begin() + rank, keyed.end(), compare);
    const C pivot = keyed[rank].key;
    // NaN comes first in descending order and last in ascending order. If the pivot is NaN, the
    // candidates are all elements or none.
    const auto is_candidate = [&](C x) { return descending ? !(x < pivot) : x <= pivot; };
    std::int64_t count = 0;
    for (C x : line) count += is_candidate(x);
    keyed.clear();
    if (count > k && count < n) {
      for (std::int64_t i = 0; i < n; ++i)
        if (is_candidate(line[i])) keyed.push_back({line[i], i});
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) keyed.push_back({line[i], i});
}

/// The first k elements of the sorted order of every line of x; values and indices have size k at
/// `dim`.
template <class C>
void first_sorted(const Tensor& x, std::int64_t dim, bool descending, std::int64_t k,
                  const Tensor& values, const Tensor& indices) {
  const std::int64_t n = size_along(x, dim);
  auto make_body = [&] {
    return [&, line = std::vector<C>(n), keyed = std::vector<Keyed<C>>(),
            order = std::vector<std::int64_t>(k)](const Offsets<3>& at) mutable {
      load(x.dtype(), x.data_ptr(), at[0], stride_along(x, dim), n, line.data());
      candidates(line, k, descending, keyed);
      auto compare = [&](const auto& a, const auto& b) { return before(a, b, descending); };
      if (k == n) {
        std::sort(keyed.begin(), keyed.end(), compare);
      } else if (k <= longest_heap) {
        std::partial_sort(keyed.begin(), keyed.begin() + k, keyed.end(), compare);
      } else {
        std::nth_element(keyed.begin(), keyed.begin() + k, keyed.end(), compare);
        std::sort(keyed.begin(), keyed.begin() + k, compare);
      }
      for (std::int64_t i = 0; i < k; ++i) {
        line[i] = keyed[i].key;
        order[i] = keyed[i].index;
      }
      store(values.dtype(), values.data_ptr(), at[1], stride_along(values, dim), k, line.data());
      store(indices.dtype(), indices.data_ptr(), at[2], stride_along(indices, dim), k,
            order.data());
    };
  };
  for_each_line(dim, make_body, x, values, indices);
}

}  // namespace

void CpuBackend::do_sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                         const Tensor& indices) {
  visit_compute_type(x.dtype(), [&]<class C>() {
    first_sorted<C>(x, dim, descending, size_along(x, dim), values, indices);
  });
}

void CpuBackend::do_topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
                         const Tensor& indices) {
  visit_compute_type(x.dtype(), [&]<class C>() {
    first_sorted<C>(x, dim, largest, size_along(values, dim), values, indices);
  });
}

}  // namespace rondo::cpu
