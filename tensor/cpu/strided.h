#pragma once
// Iterates over several tensors of the same shape together, with any strides.
//
// `StridedLoop<N>` first collapses the tensors (tensor/collapse.h). Then `for_each_row(f)` calls
// f(pointers, byte_strides, n) for runs of n elements along the fastest dimension, on several
// threads when there is enough work. Each thread gets one contiguous share, so results do not
// depend on timing.

#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "tensor/collapse.h"

namespace rondo::cpu {

/// With fewer elements than this, starting another thread costs more than it saves.
inline constexpr std::int64_t parallel_grain = 32768;

/// The number of threads worth using for `work` elements.
inline int threads_for(std::int64_t work) {
  if (work < 2 * parallel_grain || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), work / parallel_grain));
}

/// Calls f(share, begin, end) on `shares` contiguous parts of [0, n), each on its own thread. f
/// must not throw if there are several shares.
template <class F>
void parallel_shares(std::int64_t n, int shares, F f) {
  if (shares <= 1) {
    if (n > 0) f(0, std::int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(shares) schedule(static, 1)
  for (int share = 0; share < shares; ++share) {
    const std::int64_t begin = n * share / shares, end = n * (share + 1) / shares;
    if (begin < end) f(share, begin, end);
  }
}

/// Calls f(begin, end) on contiguous shares of [0, n), in parallel when `work` (default n) is
/// large.
template <class F>
void parallel_for(std::int64_t n, std::int64_t work, F f) {
  parallel_shares(n, static_cast<int>(std::min<std::int64_t>(threads_for(work), n)),
                  [&](int, std::int64_t begin, std::int64_t end) { f(begin, end); });
}

template <std::size_t N>
class StridedLoop {
 public:
  using Pointers = std::array<char*, N>;

  /// All operands must have the same shape. The loop follows the last operand's memory order,
  /// except if its fastest dimension is short, the next one is not, and the elements along that
  /// are near each other: otherwise each would be on a page of its own.
  explicit StridedLoop(const std::array<const Tensor*, N>& operands) : shape_(operands) {
    auto& [numel, dims, sizes, steps, data] = shape_;
    constexpr std::int64_t near = 128;  // bytes
    const auto is_near = [](std::int64_t step) { return std::abs(step) <= near; };
    if (dims > 1 && sizes[0] < 8 && sizes[1] >= 4 * sizes[0] &&
        std::ranges::all_of(steps[1], is_near)) {  // rows worth a call
      std::swap(sizes[0], sizes[1]);
      std::swap(steps[0], steps[1]);
    }
  }

  std::int64_t numel() const { return shape_.numel; }

  template <class F>
  void for_each_row(F f) const {
    parallel_for(shape_.numel, shape_.numel,
                 [&](std::int64_t begin, std::int64_t end) { walk(begin, end, f); });
  }

 private:
  template <class F>
  void walk(std::int64_t begin, std::int64_t end, F& f) const {
    std::array<std::int64_t, Dims::max_rank + 1> at{};
    const auto& [numel, dims, sizes, steps, data] = shape_;
    Pointers at_row = data;
    std::int64_t rest = begin;
    for (std::size_t d = 0; d < dims; ++d) {
      at[d] = rest % sizes[d];
      rest /= sizes[d];
      for (std::size_t k = 0; k < N; ++k) at_row[k] += at[d] * steps[d][k];
    }
    while (begin < end) {
      std::int64_t n = std::min(sizes[0] - at[0], end - begin);
      f(at_row, steps[0], n);
      begin += n;
      if (begin == end) return;
      for (std::size_t k = 0; k < N; ++k) at_row[k] -= at[0] * steps[0][k];
      at[0] = 0;
      for (std::size_t d = 1; d < dims; ++d) {  // carry to the next index
        for (std::size_t k = 0; k < N; ++k) at_row[k] += steps[d][k];
        if (++at[d] < sizes[d]) break;
        for (std::size_t k = 0; k < N; ++k) at_row[k] -= sizes[d] * steps[d][k];
        at[d] = 0;
      }
    }
  }

  Collapsed<N> shape_;
};

}  // namespace rondo::cpu
