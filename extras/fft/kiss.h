#pragma once
// KISS FFT's transforms of lines in memory, not recorded on the tape.

#include "tensor/tensor.h"

namespace rondo::fft::kiss {

/// y = scale Σ x[j] exp(∓2πi jk / n) for each line of x (lines, n, 2), f32 or f64, dense; the sign
/// is
/// + for `inverse`. y has x's shape and dtype.
void transform(const Tensor& x, bool inverse, double scale, const Tensor& y);

}  // namespace rondo::fft::kiss
