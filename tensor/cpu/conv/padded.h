#pragma once
// Rewrites convolutions that oneDNN computes wrongly: pads the input explicitly, or keeps only the
// pixels that the filter reads.

#include "tensor/backend.h"

namespace rondo::cpu {

/// Whether the convolution of x and w may have outputs that depend on padding only. For these
/// oneDNN 3.7 crashes or gives wrong results (with AVX-512; tests/tensor/onednn_scan_test.cpp).
bool sees_only_padding(const Tensor& x, const Tensor& w, const Conv2dParams& params);

/// A channels_last copy of x with explicit padding of `value`, as far as w reads it to compute y.
/// The convolution of this copy needs no padding; its other params are the same.
Tensor padded(const Tensor& x, double value, const Tensor& w, const Tensor& y,
              const Conv2dParams& params);

/// Whether w has one pixel and reads only some of x's.
bool is_strided_pixel(const Tensor& w, const Conv2dParams& params);

/// The pixels of x that such a filter reads to compute y, as a view.
Tensor pixels_read(const Tensor& x, const Tensor& y, const Conv2dParams& params);

}  // namespace rondo::cpu
