#pragma once
// Elementwise unary maths. Ops whose results are not integers compute integer inputs in f32, as in
// PyTorch.

#include <optional>

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
/// The inverse of erf: NaN outside of -1 … 1.
Tensor erfinv(const Tensor& x);
/// log |Γ(x)|.
Tensor lgamma(const Tensor& x);
/// Γ'(x) / Γ(x), the derivative of lgamma.
Tensor digamma(const Tensor& x);
/// The n-th derivative of digamma. Throws Error unless n is in 0 … 170.
Tensor polygamma(std::int64_t n, const Tensor& x);
/// Rounding passes no gradient on; its derivative is zero almost everywhere.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
/// To the nearest integer; ties go to even.
Tensor round(const Tensor& x);
/// To so many digits after the decimal point; a negative number rounds to tens, hundreds, …
Tensor round(const Tensor& x, std::int64_t decimals);
Tensor trunc(const Tensor& x);
/// min(max(x, low), high): high if low > high, NaN if any of the three is NaN. Integers stay
/// integers between integer bounds, and become f32 between floating-point bounds. The gradient
/// passes where low < x < high, as in PyTorch 2.15; it also passes at an infinite bound.
Tensor clamp(const Tensor& x, Scalar low, Scalar high);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor isposinf(const Tensor& x);
Tensor isneginf(const Tensor& x);
/// Whether x is negative, or -0.
Tensor signbit(const Tensor& x);

// The following are composed of other ops (composed_unary.cpp).

/// x - trunc(x). Needs a floating-point x.
Tensor frac(const Tensor& x);
/// log(x / (1 - x)), the inverse of sigmoid; x is first clamped to eps … 1 - eps, if eps is given.
Tensor logit(const Tensor& x, std::optional<double> eps = {});
/// sin(πx) / (πx), and 1 at 0.
Tensor sinc(const Tensor& x);
Tensor deg2rad(const Tensor& x);
Tensor rad2deg(const Tensor& x);

}  // namespace rondo
