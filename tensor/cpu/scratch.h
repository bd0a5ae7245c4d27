#pragma once
// Temporaries of the CPU kernels: dense copies and conversions, from the caching allocator.

#include "tensor/cpu/cpu_backend.h"

namespace rondo::cpu {

inline Tensor dense_copy(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous) {
  TensorOptions options = x.options();
  options.format = format;
  Tensor copy = Tensor::empty(x.shape(), options);
  CpuBackend::instance().copy(x, copy);
  return copy;
}

/// x itself where it is dense in `format` already.
inline Tensor dense(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous) {
  return x.is_contiguous(format) ? x : dense_copy(x, format);
}

/// x in f32, with its layout; x itself where it is f32 (or undefined).
inline Tensor as_f32(const Tensor& x) {
  if (!x.defined() || x.dtype() == f32) return x;
  Tensor converted = Tensor::empty(x.shape(), {.dtype = f32, .format = x.suggested_format()});
  CpuBackend::instance().copy(x, converted);
  return converted;
}

}  // namespace rondo::cpu
