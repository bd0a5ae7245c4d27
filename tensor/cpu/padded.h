#pragma once
// Padding that is written out, for convolutions that oneDNN gets wrong with it.

#include "tensor/backend.h"

namespace rondo::cpu {

/// Whether some outputs of a filter w of x may see only padding: oneDNN 3.7 crashes or is wrong
/// then (with AVX-512; tests/tensor/onednn_scan_test.cpp).
bool sees_only_padding(const Tensor& x, const Tensor& w, const Conv2dParams& params);

/// The pixels of x that a filter w reads for y, channels_last, with `value` where the padding is. A
/// convolution of it has no padding, and otherwise the same params.
Tensor padded(const Tensor& x, double value, const Tensor& w, const Tensor& y,
              const Conv2dParams& params);

}  // namespace rondo::cpu
