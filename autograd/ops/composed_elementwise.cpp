// The element-wise functions of unary.h and arithmetic.h that are composed of other ops.

#include <cmath>
#include <string>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"
#include "tensor/special.h"

namespace rondo {

namespace {
using functors::pi;
}

Tensor round(const Tensor& x, std::int64_t decimals) {
  if (decimals == 0) return round(x);
  const OpRange op("round");
  require_float(x, "round");
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const Tensor wide = widened(x);
  return to(decimals > 0 ? round(wide * scale) / scale : round(wide / scale) * scale, x.dtype());
}

Tensor frac(const Tensor& x) {
  const OpRange op("frac");
  require_float(x, "frac");
  return x - trunc(x);
}

Tensor logit(const Tensor& x, std::optional<double> eps) {
  const OpRange op("logit");
  Tensor p = is_floating(x.dtype()) ? widened(x) : to(x, f32);
  if (eps) p = clamp_with_bounds(p, *eps, 1 - *eps);
  // The gradient of log(p / (1 - p)) would be inf times 0 at both ends.
  return to(log(p) - log1p(-p), is_floating(x.dtype()) ? x.dtype() : f32);
}

Tensor sinc(const Tensor& x) {
  const OpRange op("sinc");
  const Tensor is_zero = eq(x, 0), angle = masked_fill(x * pi, is_zero, 1.0);
  return masked_fill(sin(angle) / angle, is_zero, 1.0);
}

Tensor deg2rad(const Tensor& x) {
  const OpName op("deg2rad");
  return x * (pi / 180);
}
Tensor rad2deg(const Tensor& x) {
  const OpName op("rad2deg");
  return x * (180 / pi);
}

namespace {
template <class B>
Tensor rounded_quotient(const Tensor& a, const B& b, const DivOptions& options) {
  const OpRange op("div");
  const std::string mode(options.rounding_mode);
  if (mode == "floor") return floor_divide(a, b);
  require(mode == "trunc", "div: rounding_mode = \"", mode, "\"; there are floor and trunc");
  if (is_floating(result_type(a, b))) return trunc(div(a, b));
  return floor_divide(sub(a, fmod(a, b)), b);
}
}  // namespace

Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options) {
  return rounded_quotient(a, b, options);
}
Tensor div(const Tensor& a, Scalar b, const DivOptions& options) {
  return rounded_quotient(a, b, options);
}

Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, AddcOptions options) {
  const OpRange op("addcmul");
  return add(input, mul(a, b), options.value);
}
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, AddcOptions options) {
  const OpRange op("addcdiv");
  return add(input, div(a, b), options.value);
}

Tensor copysign(const Tensor& a, const Tensor& b) {
  const OpRange op("copysign");
  const DType common = result_type(a, b, "copysign");
  const Tensor size = abs(to(a, is_floating(common) ? common : f32));
  return where(signbit(b), -size, size);
}

Tensor heaviside(const Tensor& x, const Tensor& values) {
  const OpRange op("heaviside");
  require<DTypeError>(x.dtype() == values.dtype(), "heaviside: the input is ", x.dtype(),
                      ", the values are ", values.dtype());
  return where(eq(x, 0), values, to(gt(x, 0), x.dtype()));
}

Tensor xlogy(const Tensor& x, const Tensor& y) {
  const OpRange op("xlogy");
  const Tensor is_zero = eq(x, 0);
  // Where x is 0, log y must be finite.
  const Tensor is_outside = logical_or(le(y, 0), isposinf(y));
  const DType common = result_type(x, y);  // before y has x's dimensions
  const Tensor product = x * log(where(logical_and(is_zero, is_outside), 1.0, y));
  return is_floating(common) ? to(product, common) : product;
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  const OpRange op("clamp");
  return minimum(maximum(x, low), high);
}

}  // namespace rondo
