// Sorting along one dimension: stable; NaN counts as the largest, and -0 equals 0, as in PyTorch.
//
// sort is a radix sort: bits of the elements are mapped to unsigned keys of the same order, and the
// pairs (key, index) are distributed by one byte of the key after the other, the lowest first. Each
// pass keeps the order of equal bytes, so that the result is stable, and a descending sort inverts
// the keys.
//
// topk is the start of the same order: among equal elements, those with smaller indices come first,
// so that topk(x, k) is exactly the first k of sort(x). A small k keeps the best elements so far in
// a heap, and skips blocks of elements that come after all of these.

#include <algorithm>
#include <compare>
#include <limits>
#include <utility>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/sort_key.h"

namespace rondo::cpu {
namespace {

/// Sorts lines; one object for each thread.
template <class C>
class RadixSort {
 public:
  /// order[i] = the index of the i-th of the n elements.
  void operator()(const C* line, std::int64_t n, bool descending, std::int64_t* order) {
    from_.resize(static_cast<std::size_t>(n));
    to_.resize(static_cast<std::size_t>(n));
    const SortKey<C> flip = descending ? std::numeric_limits<SortKey<C>>::max() : 0;
    for (std::int64_t i = 0; i < n; ++i)
      from_[i] = {sort_key(line[i]) ^ flip, static_cast<SortKey<C>>(i)};
    if (n < 64) {  // clearing the counts would take longer
      std::ranges::sort(from_);
    } else {
      distribute();
    }
    for (std::int64_t i = 0; i < n; ++i) order[i] = static_cast<std::int64_t>(from_[i].index);
  }

 private:
  static constexpr std::size_t bytes = sizeof(SortKey<C>);
  struct Element {
    SortKey<C> key, index;
    auto operator<=>(const Element&) const = default;
  };
  static std::size_t digit(SortKey<C> key, std::size_t byte) { return key >> (8 * byte) & 255; }

  void distribute() {
    counts_ = {};
    for (const Element& element : from_)
      for (std::size_t byte = 0; byte < bytes; ++byte) ++counts_[byte][digit(element.key, byte)];
    for (std::size_t byte = 0; byte < bytes; ++byte) {
      auto& counts = counts_[byte];
      if (counts[digit(from_[0].key, byte)] == from_.size()) continue;  // all are equal
      SortKey<C> begin = 0;
      for (SortKey<C>& count : counts) begin += std::exchange(count, begin);
      for (const Element& element : from_) to_[counts[digit(element.key, byte)]++] = element;
      from_.swap(to_);
    }
  }

  std::vector<Element> from_, to_;
  std::array<std::array<SortKey<C>, 256>, bytes> counts_;
};

/// Finds the first k elements of lines; one object for each thread.
template <class C>
class FirstElements {
 public:
  /// order[i] = the index of the i-th of the first k of n elements; 0 < k <= n.
  void operator()(const C* line, std::int64_t n, std::int64_t k, bool descending,
                  std::int64_t* order) {
    const SortKey<C> flip = descending ? std::numeric_limits<SortKey<C>>::max() : 0;
    const auto element = [&](std::int64_t i) { return Element{sort_key(line[i]) ^ flip, i}; };
    heap_.clear();  // its front is the last of the best elements so far
    for (std::int64_t i = 0; i < k; ++i) heap_.push_back(element(i));
    std::ranges::make_heap(heap_);
    for (std::int64_t i = k; i < n;) {
      const C last = line[heap_.front().index];
      if (i + block <= n &&
          (descending ? all_after<true>(line + i, last) : all_after<false>(line + i, last))) {
        i += block;
        continue;
      }
      for (const std::int64_t end = std::min(n, i + block); i < end; ++i) {
        const Element next = element(i);
        if (next.key >= heap_.front().key) continue;
        std::ranges::pop_heap(heap_);
        heap_.back() = next;
        std::ranges::push_heap(heap_);
      }
    }
    std::ranges::sort_heap(heap_);
    for (std::int64_t i = 0; i < k; ++i) order[i] = heap_[i].index;
  }

 private:
  struct Element {
    SortKey<C> key;
    std::int64_t index;
    auto operator<=>(const Element&) const = default;
  };
  static constexpr std::int64_t block = 32;

  /// Whether no element of a block comes before `last`. This may answer no where NaN is involved.
  template <bool descending>
  static bool all_after(const C* x, C last) {
    SortKey<C> before = 0;
    for (std::int64_t i = 0; i < block; ++i)
      before |= !(descending ? x[i] <= last : x[i] >= last) ? ~SortKey<C>{0} : SortKey<C>{0};
    return before == 0;
  }

  std::vector<Element> heap_;
};

/// The first elements of the sorted order of every line of x, as many as `values` and `indices`
/// have along `dim`.
template <class C>
void first_sorted(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                  const Tensor& indices) {
  const std::int64_t n = size_along(x, dim), k = size_along(values, dim);
  if (k == 0) return;
  // The radix sort's indices of f32 have 32 bits.
  const bool few = k < n / 16 || std::uint64_t(n) > std::numeric_limits<SortKey<C>>::max();
  const bool is_dense = x.dtype() == dtype_of<C> && (stride_along(x, dim) == 1 || n == 1);
  auto make_body = [&] {
    return [&, buffer = std::vector<C>(is_dense ? 0 : n), chosen = std::vector<C>(k),
            order = std::vector<std::int64_t>(few ? k : n), sort = RadixSort<C>(),
            first = FirstElements<C>()](const Offsets<3>& at) mutable {
      const C* line =
          dense_line(x.dtype(), x.data_ptr(), at[0], stride_along(x, dim), n, buffer.data());
      if (few) {
        first(line, n, k, descending, order.data());
      } else {
        sort(line, n, descending, order.data());
      }
      for (std::int64_t i = 0; i < k; ++i) chosen[i] = line[order[i]];
      store(values.dtype(), values.data_ptr(), at[1], stride_along(values, dim), k, chosen.data());
      store(indices.dtype(), indices.data_ptr(), at[2], stride_along(indices, dim), k,
            order.data());
    };
  };
  for_each_line(dim, make_body, x, values, indices);
}

}  // namespace

void CpuBackend::do_sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                         const Tensor& indices) {
  visit_compute_type(x.dtype(),
                     [&]<class C>() { first_sorted<C>(x, dim, descending, values, indices); });
}

void CpuBackend::do_topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
                         const Tensor& indices) {
  visit_compute_type(x.dtype(),
                     [&]<class C>() { first_sorted<C>(x, dim, largest, values, indices); });
}

}  // namespace rondo::cpu
