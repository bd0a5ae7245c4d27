#pragma once
// Windows of images, copied out one next to the other. Shared by fold.cpp and composed_pool.cpp;
// not for users.

#include <cstdint>

#include "autograd/ops/reduce.h"
#include "tensor/tensor.h"

namespace rondo {
namespace detail {

/// Where `count` windows of `size` elements each are along one dimension.
struct Windows {
  std::int64_t size, count;
  Tensor positions;  // i64 (size, count): of the first elements of all windows, then the second, …
};

/// Windows at 0, stride, 2 stride, …
Windows sliding_windows(std::int64_t size, std::int64_t count, std::int64_t stride,
                        std::int64_t dilation, Device device);
/// Windows floor(i n / count) … ceil((i + 1) n / count). Shorter ones repeat their last element.
Windows adaptive_windows(std::int64_t n, std::int64_t count, Device device);

/// x (N, C, H, W) to (N, C, rows.size, columns.size, rows.count, columns.count).
Tensor gather_windows(const Tensor& x, const Windows& rows, const Windows& columns);
/// h * width + w of the same elements, (rows.size, columns.size, rows.count, columns.count), i64.
Tensor plane_positions(const Windows& rows, const Windows& columns, std::int64_t width);

/// The largest element of each window, (N, C, rows.count, columns.count), the first of equal ones,
/// and its position h * W + w.
ValuesAndIndices largest_of_windows(const Tensor& x, const Windows& rows, const Windows& columns);

}  // namespace detail
}  // namespace rondo
