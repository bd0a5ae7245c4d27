#pragma once
// Collapsed<N>: N tensors of the same shape, traversed together in as few dimensions as possible.
//
// Dimensions of size 1 are removed. The others are ordered so that the last operand (the output) is
// traversed in memory order, forwards or backwards. Neighbouring dimensions that are contiguous in
// *all* operands are merged. Most element-wise work collapses to one long row, whatever its shape
// was. Every device's loops use this.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "tensor/tensor.h"

namespace rondo {

template <std::size_t N>
struct Collapsed {
  using Steps = std::array<std::int64_t, N>;
  static constexpr std::size_t max_dims = Dims::max_rank + 1;

  std::int64_t numel = 0;
  std::size_t dims = 0;                        // at least 1
  std::array<std::int64_t, max_dims> sizes{};  // the fastest dimension first
  std::array<Steps, max_dims> steps{};         // bytes from one element to the next, by operand
  std::array<char*, N> data{};

  /// All operands must have the same shape.
  explicit Collapsed(const std::array<const Tensor*, N>& operands) {
    const Dims& shape = operands[0]->shape();
    numel = numel_of(shape);
    for (std::size_t k = 0; k < N; ++k) {
      require<ShapeError>(operands[k]->shape() == shape, "operands of shapes ", shape, " and ",
                          operands[k]->shape(), " in an element-wise loop; expected equal shapes");
      data[k] = static_cast<char*>(operands[k]->data_ptr());
    }
    std::array<std::int64_t, Dims::max_rank> order{};
    std::size_t rank = 0;
    for (std::int64_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) order[rank++] = d;
    }
    const Dims& follow = operands[N - 1]->strides();
    std::stable_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rank),
        [&](std::int64_t a, std::int64_t b) { return std::abs(follow[a]) > std::abs(follow[b]); });
    while (rank > 0) {
      std::int64_t d = order[--rank];
      Steps step;
      for (std::size_t k = 0; k < N; ++k)
        step[k] = operands[k]->strides()[d] * size_of(operands[k]->dtype());
      append(shape[d], step);
    }
    if (dims == 0) append(1, Steps{});
  }

 private:
  void append(std::int64_t size, const Steps& step) {
    if (dims > 0) {
      bool merges = true;
      for (std::size_t k = 0; k < N; ++k)
        merges = merges && step[k] == steps[dims - 1][k] * sizes[dims - 1];
      if (merges) {
        sizes[dims - 1] *= size;
        return;
      }
    }
    sizes[dims] = size;
    steps[dims++] = step;
  }
};

}  // namespace rondo
