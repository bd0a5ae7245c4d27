#pragma once
// What collectives ask of tensors. Private to dist.

#include <algorithm>
#include <vector>

#include "tensor/backend.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

namespace rondo::dist {

inline void check_dense(const char* what, const Tensor& x) {
  require<CommError>(x.defined(), what, ": the tensor is undefined");
  bool dense = x.is_contiguous() || (x.dim() == 4 && x.is_contiguous(MemoryFormat::channels_last));
  require<ShapeError>(dense, what, ": the tensor ", x.shape(), " with strides ", x.strides(),
                      " is not dense; call contiguous()");
}

// Collectives whose ranks all hold one tensor (all_reduce, reduce, broadcast) take it as it lies in
// memory, and compare how it lies (Signature::set_layout). All others put tensors together or cut
// them apart, between tensors that may lie differently: what they send is read in row-major order,
// and what they write must lie so.

/// x's elements in row-major order: x itself unless it is channels_last.
inline Tensor row_major(const char* what, const Tensor& x) {
  check_dense(what, x);
  if (x.is_contiguous()) return x;
  const Tensor copy = Tensor::empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  backend(x).copy(x, copy);
  return copy;
}

inline void check_row_major(const char* what, const Tensor& x) {
  check_dense(what, x);
  require<ShapeError>(x.is_contiguous(), what, ": the tensor ", x.shape(), " with strides ",
                      x.strides(),
                      " is channels_last, but elements arrive in row-major order; "
                      "receive into a contiguous tensor");
}

/// Throws ShapeError where a tensor that is written shares memory with another one in the two
/// lists; `own` is the place in both of what stays on this rank, where source and target may be the
/// same.
inline void check_apart(const char* what, const std::vector<Tensor>& written,
                        const std::vector<Tensor>& read, std::size_t own) {
  struct Range {
    const char *begin, *end;
    bool is_written;
  };
  std::vector<Range> ranges;
  const auto add = [&](const Tensor& x, bool is_written) {
    if (!x.defined() || x.numel() == 0) return;
    const auto* begin = static_cast<const char*>(x.data_ptr());
    ranges.push_back({begin, begin + x.nbytes(), is_written});
  };
  for (const Tensor& x : written) add(x, true);
  // Of all_gather, whose part of this rank may be the tensor that it sends.
  const auto is_same = [](const Tensor& x, const Tensor& y) {
    return x.defined() && y.defined() && x.data_ptr() == y.data_ptr();
  };
  const bool stays = is_same(written[own], read[own]);
  for (const Tensor& x : read) {
    if (!(stays && is_same(x, written[own]))) add(x, false);
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  const char *end_of_written = nullptr, *end_of_all = nullptr;
  for (const Range& range : ranges) {
    require<ShapeError>(range.begin >= (range.is_written ? end_of_all : end_of_written), what,
                        ": a tensor that is written shares memory with another one of the lists; "
                        "pass tensors of their own");
    if (range.is_written) end_of_written = std::max(end_of_written, range.end);
    end_of_all = std::max(end_of_all, range.end);
  }
}

/// y's elements become x's in the order in which they lie in memory; both are dense.
inline void copy_elements(const Tensor& x, const Tensor& y) {
  backend(x).copy(x.as_view({x.numel()}, {1}, x.storage_offset()),
                  y.as_view({y.numel()}, {1}, y.storage_offset()));
}

/// x becomes factor x. Unlike a tensor that x would be multiplied by, the factor is not rounded to
/// x's dtype: 1/3 in bf16 is 0.2 % too large.
inline void scale(const Tensor& x, double factor) {
  x.bump_version();
  backend(x).unary(UnaryOp::mul_scalar, x, x, {.alpha = factor});
}

inline std::size_t bytes_of(const Tensor& x) { return static_cast<std::size_t>(x.nbytes()); }

}  // namespace rondo::dist
