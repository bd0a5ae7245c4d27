#pragma once
// Explicit padding, for padded convolutions that oneDNN computes wrongly.

#include "tensor/backend.h"

namespace rondo::cpu {

/// Whether some outputs of a filter w on x may see only padding. In that case oneDNN 3.7 crashes or
/// gives wrong results (with AVX-512; tests/tensor/onednn_scan_test.cpp).
bool sees_only_padding(const Tensor& x, const Tensor& w, const Conv2dParams& params);

/// The pixels of x that a filter w reads for y, channels_last, with `value` in the padding. A
/// convolution of the result uses no padding and otherwise the same params.
Tensor padded(const Tensor& x, double value, const Tensor& w, const Tensor& y,
              const Conv2dParams& params);

}  // namespace rondo::cpu
