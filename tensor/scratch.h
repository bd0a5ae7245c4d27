#pragma once
// Temporaries of the kernels: dense copies and conversions, on the device of what they are made
// from.

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

/// x itself where it is dense in `format` already (or undefined).
inline Tensor dense(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous) {
  return !x.defined() || x.is_contiguous(format) ? x : dense_copy(x, format);
}

/// What a kernel that writes `format` may write to: y itself, or memory to be copied to y after.
inline Tensor dense_output(const Tensor& y, MemoryFormat format) {
  return !y.defined() || y.is_contiguous(format) ? y : empty_in(y, format);
}

/// x in f32, with its layout; x itself where it is f32 (or undefined).
inline Tensor as_f32(const Tensor& x) {
  if (!x.defined() || x.dtype() == f32) return x;
  Tensor converted = Tensor::empty(
      x.shape(), {.dtype = f32, .device = x.device(), .format = x.suggested_format()});
  backend(x).copy(x, converted);
  return converted;
}

}  // namespace rondo
