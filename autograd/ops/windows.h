#pragma once
// Windows of images, copied out one next to the other. Shared by fold.cpp and composed_pool.cpp;
// not for users.

#include <cstdint>
#include <vector>

#include "autograd/ops/reduce.h"
#include "tensor/tensor.h"

namespace rondo {
namespace detail {

/// Where `count` windows of `size` elements each are along one dimension.
struct Windows {
  std::int64_t size, count;
  std::vector<std::int64_t> positions;  // of the first elements of all windows, then the second, …
};

/// Windows at 0, stride, 2 stride, …
Windows sliding_windows(std::int64_t size, std::int64_t count, std::int64_t stride,
                        std::int64_t dilation);
/// Windows floor(i n / count) … ceil((i + 1) n / count). Shorter ones repeat their last element.
Windows adaptive_windows(std::int64_t n, std::int64_t count);

/// x (N, C, H, W) to (N, C, rows.size, columns.size, rows.count, columns.count).
Tensor gather_windows(const Tensor& x, const Windows& rows, const Windows& columns);
/// h * width + w of the same elements, (rows.size, columns.size, rows.count, columns.count), i64.
Tensor plane_positions(const Windows& rows, const Windows& columns, std::int64_t width,
                       Device device);

/// The largest element of each window, (N, C, rows.count, columns.count), the first of equal ones,
/// and its plane position plus `shift`.
ValuesAndIndices largest_of_windows(const Tensor& x, const Windows& rows, const Windows& columns,
                                    std::int64_t width, std::int64_t shift = 0);

}  // namespace detail
}  // namespace rondo
