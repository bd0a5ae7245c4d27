#pragma once
// The memory layout of the matrices of a batch (B, M, N), as matrix product libraries need it.

#include "tensor/tensor.h"

namespace rondo {

/// A dimension of size 1 may have any stride, so it never decides the order.
inline bool is_row_major(const Tensor& x) {
  return (x.size(2) == 1 || x.stride(2) == 1) && (x.size(1) == 1 || x.stride(1) >= x.size(2));
}
inline bool is_column_major(const Tensor& x) {
  return (x.size(1) == 1 || x.stride(1) == 1) && (x.size(2) == 1 || x.stride(2) >= x.size(1));
}

/// The layout of a row-major or column-major tensor.
struct MatrixLayout {
  bool row_major;
  std::int64_t leading;  // elements from one row (column) to the next
  std::int64_t batch;    // elements from one matrix to the next; 0 if all share one matrix

  explicit MatrixLayout(const Tensor& x) : row_major(is_row_major(x)) {
    const std::int64_t rows = x.size(1), columns = x.size(2);
    leading = row_major ? (rows == 1 ? columns : x.stride(1)) : (columns == 1 ? rows : x.stride(2));
    // A batch stride may have any value: in a (1, 0, 2)-permuted tensor it is smaller than a
    // matrix.
    batch = x.size(0) > 1 ? x.stride(0) : leading * (row_major ? rows : columns);
  }
};

}  // namespace rondo
