// Sorting along one dimension: stable, NaN counting as largest, as in PyTorch.
//
// topk is the head of the same order, found by a partial sort or, where it is long, by a selection
// whose head is sorted; ties go to the smaller index, which
// is what stability means, so that topk(x, k) are exactly the first k of sort(x).

#include <algorithm>
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

/// a before b in the order asked for. Total, thanks to the index, hence "stable" with any
/// algorithm.
template <class C>
bool before(const Keyed<C>& a, const Keyed<C>& b, bool descending) {
  const C low = descending ? b.key : a.key, high = descending ? a.key : b.key;
  if (low < high || (low == low && high != high)) return true;
  if (high < low || (high == high && low != low)) return false;
  return a.index < b.index;
}

/// The first k of the sorted order of every line of x; values and indices have k at `dim`.
template <class C>
void first_sorted(const Tensor& x, std::int64_t dim, bool descending, std::int64_t k,
                  const Tensor& values, const Tensor& indices) {
  const std::int64_t n = size_along(x, dim);
  auto make_body = [&] {
    return [&, line = std::vector<C>(n), keyed = std::vector<Keyed<C>>(n),
            order = std::vector<std::int64_t>(k)](const Offsets<3>& at) mutable {
      load(x.dtype(), x.data_ptr(), at[0], stride_along(x, dim), n, line.data());
      for (std::int64_t i = 0; i < n; ++i) keyed[i] = {line[i], i};
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

void CpuBackend::sort(const Tensor& x, std::int64_t dim, bool descending, const Tensor& values,
                      const Tensor& indices) {
  visit_compute_type(x.dtype(), [&]<class C>() {
    first_sorted<C>(x, dim, descending, size_along(x, dim), values, indices);
  });
}

void CpuBackend::topk(const Tensor& x, std::int64_t dim, bool largest, const Tensor& values,
                      const Tensor& indices) {
  visit_compute_type(x.dtype(), [&]<class C>() {
    first_sorted<C>(x, dim, largest, size_along(values, dim), values, indices);
  });
}

}  // namespace rondo::cpu
