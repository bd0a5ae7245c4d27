#pragma once
// What collectives require of tensors. Private to dist.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "dist/collectives/algorithms/exchange.h"
#include "tensor/backend.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

namespace rondo::dist {

inline void check_dense(const char* what, const Tensor& x) {
  require<CommError>(x.defined(), what, ": the tensor is undefined");
  bool dense = x.is_contiguous() || (x.dim() == 4 && x.is_contiguous(MemoryFormat::channels_last));
  require<ShapeError>(dense, what, ": the tensor ", x.shape(), " with strides ", x.strides(),
                      " is not dense; call contiguous()");
}

// Collectives in which each rank holds one tensor of the same shape (all_reduce, reduce, broadcast)
// take it in its memory order, and verify that the order is equal on all ranks
// (Signature::set_layout). All others concatenate or split tensors, whose layouts may differ. They
// read what they send in row-major order, and write only to contiguous tensors.

inline Tensor copy_of(const Tensor& x) {
  const Tensor copy = Tensor::empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  backend(x).copy(x, copy);
  return copy;
}

/// x's elements in row-major order: x itself unless it is channels_last.
inline Tensor row_major(const char* what, const Tensor& x) {
  check_dense(what, x);
  return x.is_contiguous() ? x : copy_of(x);
}

inline void check_row_major(const char* what, const Tensor& x) {
  check_dense(what, x);
  require<ShapeError>(x.is_contiguous(), what, ": the tensor ", x.shape(), " with strides ",
                      x.strides(),
                      " is channels_last, but elements arrive in row-major order; "
                      "receive into a contiguous tensor");
}

/// Whether two dense tensors share an element.
inline bool overlap(const Tensor& a, const Tensor& b) {
  const auto* p = static_cast<const char*>(a.data_ptr());
  const auto* q = static_cast<const char*>(b.data_ptr());
  return a.numel() > 0 && b.numel() > 0 && p < q + b.nbytes() && q < p + a.nbytes();
}

/// Copies x's elements to y in memory order; both are dense. They may overlap.
inline void copy_elements(const Tensor& x, const Tensor& y) {
  Tensor from = x.as_view({x.numel()}, {1}, x.storage_offset());
  if (overlap(x, y) && x.data_ptr() != y.data_ptr()) from = copy_of(from);
  backend(x).copy(from, y.as_view({y.numel()}, {1}, y.storage_offset()));
}

/// x becomes factor x. The factor is not rounded to x's dtype, as a tensor factor would be: 1/3 in
/// bf16 is 0.2 % too large.
inline void scale(const Tensor& x, double factor) {
  x.bump_version();
  backend(x).unary(UnaryOp::mul_scalar, x, x, {.alpha = factor});
}

/// Describes a message and is sent before it: the bytes of the message do not tell their dtype.
struct MessageContent {
  std::int64_t dtype = 0, count = 0;

  MessageContent() = default;
  explicit MessageContent(const Tensor& x)
      : dtype(static_cast<std::int64_t>(x.dtype())), count(x.numel()) {}
  bool operator==(const MessageContent&) const = default;
  std::string text() const { return concat(count, ' ', name_of(static_cast<DType>(dtype))); }
};

/// The contents of an undefined tensor are empty.
inline Contents contents_of(const Tensor& x) {
  Contents contents;
  if (!x.defined()) return contents;
  contents.dtype = static_cast<std::int64_t>(x.dtype());
  contents.dims = x.dim();
  std::ranges::copy(x.shape(), contents.sizes);
  return contents;
}

/// Throws CommError unless the receiver's tensor matches what is sent. Ranks are numbers in the
/// world.
inline void check_elements(const MessageContent& sent, int from, const MessageContent& received,
                           int to) {
  require<CommError>(sent == received, "rank ", from, " sends ", sent.text(), " where rank ", to,
                     " receives ", received.text());
}

inline std::size_t bytes_of(const Tensor& x) { return static_cast<std::size_t>(x.nbytes()); }

}  // namespace rondo::dist
