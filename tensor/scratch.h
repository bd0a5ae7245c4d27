#pragma once
// Temporaries for kernels: dense copies and conversions, on the device of their source.

#include "tensor/backend.h"

namespace rondo {

/// Uninitialised memory for x's elements, dense in `format`.
inline Tensor empty_in(const Tensor& x, MemoryFormat format) {
  return Tensor::empty(x.shape(), {.dtype = x.dtype(), .device = x.device(), .format = format});
}

inline Tensor dense_copy(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous) {
  Tensor copy = empty_in(x, format);
  backend(x).copy(x, copy);
  return copy;
}

/// x itself if it is already dense in `format` (or undefined), otherwise a dense copy.
inline Tensor dense(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous) {
  return !x.defined() || x.is_contiguous(format) ? x : dense_copy(x, format);
}

/// The tensor for a kernel that can write only `format`: y itself, or temporary memory that the
/// caller copies to y afterwards.
inline Tensor dense_output(const Tensor& y, MemoryFormat format) {
  return !y.defined() || y.is_contiguous(format) ? y : empty_in(y, format);
}

/// x converted to f32, with the same layout; x itself if it is f32 (or undefined).
inline Tensor as_f32(const Tensor& x) {
  if (!x.defined() || x.dtype() == f32) return x;
  Tensor converted = Tensor::empty(
      x.shape(), {.dtype = f32, .device = x.device(), .format = x.suggested_format()});
  backend(x).copy(x, converted);
  return converted;
}

}  // namespace rondo
