#pragma once
// Walking several tensors of one shape together, whatever their strides.
//
// `StridedLoop<N>` first simplifies: size-1 dimensions go, dimensions are ordered so that the last
// operand (the output) is walked in memory order, and neighbours that are contiguous in *all*
// operands are merged. Most loops collapse to one long row. Then `for_each_row(f)` calls
// f(pointers, byte_strides, n) for runs of n elements along the fastest dimension, on several
// threads when there is enough to do; each thread takes one contiguous share, so results do not
// depend on luck.

#include <omp.h>

#include <algorithm>
#include <array>

#include "tensor/tensor.h"

namespace rondo::cpu {

/// Elements below which starting another thread costs more than it saves.
inline constexpr std::int64_t parallel_grain = 32768;

/// Threads worth using for `work` elements.
inline int threads_for(std::int64_t work) {
  if (work < 2 * parallel_grain || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), work / parallel_grain));
}

/// Calls f(begin, end) on contiguous shares of [0, n), in parallel when `work` (default n) is
/// large.
template <class F>
void parallel_for(std::int64_t n, std::int64_t work, F f) {
  int threads = static_cast<int>(std::min<std::int64_t>(threads_for(work), n));
  if (threads <= 1) {
    if (n > 0) f(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    std::int64_t share = omp_get_thread_num(), of = omp_get_num_threads();
    std::int64_t begin = n * share / of, end = n * (share + 1) / of;
    if (begin < end) f(begin, end);
  }
}

template <std::size_t N>
class StridedLoop {
 public:
  using Pointers = std::array<char*, N>;
  using Steps = std::array<std::int64_t, N>;

  /// All operands must have the same shape; the last one's memory order is followed.
  explicit StridedLoop(const std::array<const Tensor*, N>& operands) {
    const Dims& shape = operands[0]->shape();
    numel_ = numel_of(shape);
    for (std::size_t k = 0; k < N; ++k) {
      require<ShapeError>(operands[k]->shape() == shape, "operands of shapes ", shape, " and ",
                          operands[k]->shape(), " in one element-wise loop");
      base_[k] = static_cast<char*>(operands[k]->data_ptr());
    }
    std::array<std::int64_t, Dims::max_rank> order{};
    for (std::int64_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) order[static_cast<std::size_t>(rank_++)] = d;
    }
    const Dims& follow = operands[N - 1]->strides();
    std::stable_sort(order.begin(), order.begin() + rank_,
                     [&](std::int64_t a, std::int64_t b) { return follow[a] > follow[b]; });
    for (std::int64_t i = rank_ - 1; i >= 0; --i) {  // fastest dimension first
      std::int64_t d = order[static_cast<std::size_t>(i)];
      Steps steps;
      for (std::size_t k = 0; k < N; ++k) {
        steps[k] = operands[k]->strides()[d] * size_of(operands[k]->dtype());
      }
      append(shape[d], steps);
    }
    if (dims_ == 0) append(1, Steps{});
  }

  std::int64_t numel() const { return numel_; }

  template <class F>
  void for_each_row(F f) const {
    parallel_for(numel_, numel_,
                 [&](std::int64_t begin, std::int64_t end) { walk(begin, end, f); });
  }

 private:
  void append(std::int64_t size, const Steps& steps) {
    if (dims_ > 0) {
      bool merges = true;
      for (std::size_t k = 0; k < N; ++k) {
        merges = merges && steps[k] == steps_[dims_ - 1][k] * sizes_[dims_ - 1];
      }
      if (merges) {
        sizes_[dims_ - 1] *= size;
        return;
      }
    }
    sizes_[dims_] = size;
    steps_[dims_++] = steps;
  }

  template <class F>
  void walk(std::int64_t begin, std::int64_t end, F& f) const {
    std::array<std::int64_t, Dims::max_rank + 1> at{};
    Pointers at_row = base_;
    std::int64_t rest = begin;
    for (std::size_t d = 0; d < dims_; ++d) {
      at[d] = rest % sizes_[d];
      rest /= sizes_[d];
      for (std::size_t k = 0; k < N; ++k) at_row[k] += at[d] * steps_[d][k];
    }
    while (begin < end) {
      std::int64_t n = std::min(sizes_[0] - at[0], end - begin);
      f(at_row, steps_[0], n);
      begin += n;
      if (begin == end) return;
      for (std::size_t k = 0; k < N; ++k) at_row[k] -= at[0] * steps_[0][k];
      at[0] = 0;
      for (std::size_t d = 1; d < dims_; ++d) {  // the odometer's carry
        for (std::size_t k = 0; k < N; ++k) at_row[k] += steps_[d][k];
        if (++at[d] < sizes_[d]) break;
        for (std::size_t k = 0; k < N; ++k) at_row[k] -= sizes_[d] * steps_[d][k];
        at[d] = 0;
      }
    }
  }

  std::int64_t numel_ = 0, rank_ = 0;
  std::size_t dims_ = 0;
  std::array<std::int64_t, Dims::max_rank + 1> sizes_{};
  std::array<Steps, Dims::max_rank + 1> steps_{};
  Pointers base_{};
};

}  // namespace rondo::cpu
