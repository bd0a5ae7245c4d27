#pragma once
// Lines: how kernels that work along one dimension (softmax, sort, cumsum, gather, …) access a
// tensor of any dtype and strides.
//
// A line consists of the elements along one dimension, with the other indices fixed. A kernel is
// written once for dense arrays of three compute types (double for f64, float for the shorter
// floats, int64_t for integers and bool). `load` and `store` convert a line, so that nine dtypes
// need only three instantiations. If a line already is a dense array of the compute type,
// `dense_line` returns the tensor's own memory.
//
// Read next: scan.cpp, the shortest kernel that uses lines.

#include <omp.h>

#include <array>
#include <type_traits>
#include <vector>

#include "tensor/cpu/convert.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu {

/// out[i] = element `offset + i stride` of `data`, converted to C (float, double or int64_t).
template <class C>
void load(DType dtype, const void* data, std::int64_t offset, std::int64_t stride, std::int64_t n,
          C* out) {
  const std::int64_t size = size_of(dtype);
  load_row(dtype, static_cast<const char*>(data) + offset * size, stride * size, n, out);
}
/// Element `offset + i stride` of `data` = in[i], converted; conversion to bool gives [in != 0].
template <class C>
void store(DType dtype, void* data, std::int64_t offset, std::int64_t stride, std::int64_t n,
           const C* in) {
  const std::int64_t size = size_of(dtype);
  store_row(dtype, in, n, static_cast<char*>(data) + offset * size, stride * size);
}

/// The line as a dense array: the tensor's own memory if it is dense, otherwise `buffer` (n
/// elements), filled from it.
template <class C>
const C* dense_line(DType dtype, const void* data, std::int64_t offset, std::int64_t stride,
                    std::int64_t n, C* buffer) {
  if (dtype == dtype_of<C> && (stride == 1 || n == 1)) return static_cast<const C*>(data) + offset;
  load(dtype, data, offset, stride, n, buffer);
  return buffer;
}

template <int K>
using Offsets = std::array<std::int64_t, K>;

/// Iterates over the index space `sizes` in row-major order and keeps K offsets, one for each set
/// of strides.
template <int K>
class Walker {
 public:
  Walker(const Dims& sizes, const std::array<Dims, K>& strides)
      : sizes_(sizes), strides_(strides), index_(Dims::filled(sizes.size(), 0)) {}

  /// Moves to the position with row-major number `linear`.
  void seek(std::int64_t linear) {
    offsets_ = {};
    for (std::int64_t d = sizes_.size() - 1; d >= 0; --d) {
      index_[d] = linear % sizes_[d];
      linear /= sizes_[d];
      for (int k = 0; k < K; ++k) offsets_[k] += index_[d] * strides_[k][d];
    }
  }
  void next() {
    for (std::int64_t d = sizes_.size() - 1; d >= 0; --d) {
      for (int k = 0; k < K; ++k) offsets_[k] += strides_[k][d];
      if (++index_[d] < sizes_[d]) return;
      for (int k = 0; k < K; ++k) offsets_[k] -= sizes_[d] * strides_[k][d];
      index_[d] = 0;
    }
  }
  const Offsets<K>& offsets() const { return offsets_; }

 private:
  Dims sizes_;
  std::array<Dims, K> strides_;
  Dims index_;
  Offsets<K> offsets_{};
};

/// Calls body(offsets) for every position of `sizes`, in parallel when that pays off for `work`
/// elements at each position. Calls `make_body()` once per thread, so that a body can own buffers.
/// Bodies must not throw.
template <int K, class MakeBody>
void for_each_position(const Dims& sizes, const std::array<Dims, K>& strides, std::int64_t work,
                       const MakeBody& make_body) {
  const std::int64_t count = numel_of(sizes);
  if (count == 0) return;
  parallel_for(count, count * work, [&](std::int64_t begin, std::int64_t end) {
    auto body = make_body();
    Walker<K> walker(sizes, strides);
    walker.seek(begin);
    for (std::int64_t i = begin; i < end; ++i, walker.next()) body(walker.offsets());
  });
}

/// `dims` without entry `dim`; unchanged for a 0-dim tensor.
inline Dims without(Dims dims, std::int64_t dim) {
  if (!dims.empty()) dims.erase(dim);
  return dims;
}
/// Size and stride along `dim`; a 0-dim tensor counts as one element.
inline std::int64_t size_along(const Tensor& x, std::int64_t dim) {
  return x.dim() == 0 ? 1 : x.shape()[dim];
}
inline std::int64_t stride_along(const Tensor& x, std::int64_t dim) {
  return x.dim() == 0 ? 1 : x.strides()[dim];
}

/// for_each_position over the lines along `dim` of tensors with equal shapes (except at `dim`).
template <class MakeBody, class... Ts>
void for_each_line(std::int64_t dim, const MakeBody& make_body, const Tensor& first,
                   const Ts&... others) {
  for_each_position<1 + sizeof...(Ts)>(
      without(first.shape(), dim),
      {without(first.strides(), dim), without(others.strides(), dim)...}, size_along(first, dim),
      make_body);
}

}  // namespace rondo::cpu
