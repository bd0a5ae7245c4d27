#pragma once
// Elementwise unary maths. Ops whose results are not integers compute integer inputs in f32, as in
// PyTorch.

#include "tensor/tensor.h"

namespace rondo {

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
/// Rounding passes no gradient on; its derivative is zero almost everywhere.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// To the nearest integer; ties go to even.
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);
/// min(max(x, low), high): high if low > high, NaN if any of the three is NaN. Integers stay
/// integers between integer bounds, and become f32 between floating-point bounds. The gradient
/// passes where low <= x <= high.
Tensor clamp(const Tensor& x, Scalar low, Scalar high);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

}  // namespace rondo
