// The element-wise functions that are composed of other ops. At the end are those with a kernel
// each, since their formulas take many passes; a second derivative is computed from ops.

#include <cmath>
#include <limits>
#include <string>

#include "autograd/ops/activation.h"
#include "autograd/ops/activation_node.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
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
  if (TraceMode::is_enabled()) return trunc(div(a, b));
  if (is_floating(result_type(a, b)))
    return no_grad(
        [&] { return trunc(div(a, b)); });  // constant between its jumps, as floor_divide
  return floor_divide(sub(a, fmod(a, b)), b);
}
}  // namespace

Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options) {
  return rounded_quotient(a, b, options);
}
Tensor div(const Tensor& a, Scalar b, const DivOptions& options) {
  return rounded_quotient(a, b, options);
}

namespace {

/// The dtype of a sum of x and a product of a and b. 0-dim tensors count by their category.
DType common_type(const Tensor& x, const Tensor& a, const Tensor& b) {
  std::optional<DType> strong, weak;
  for (const Tensor* each : {&x, &a, &b}) {
    std::optional<DType>& dtype = each->dim() > 0 ? strong : weak;
    dtype = dtype ? promote(*dtype, each->dtype()) : each->dtype();
  }
  if (!strong || (weak && category_of(*weak) > category_of(*strong))) return *weak;
  return *strong;
}

/// input + value f(a, b), computed in the common dtype, or in f32 for shorter floats.
template <class F>
Tensor added(const Tensor& input, const Tensor& a, const Tensor& b, double value, F f) {
  const DType common = common_type(input, a, b);
  const DType wide = is_floating(common) ? promote(common, f32) : common;
  return to(add(to(input, wide), f(to(a, wide), to(b, wide)), value), common);
}

}  // namespace

Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, AddcOptions options) {
  const OpRange op("addcmul");
  return added(input, a, b, options.value,
               [](const Tensor& a, const Tensor& b) { return mul(a, b); });
}
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, AddcOptions options) {
  const OpRange op("addcdiv");
  require<DTypeError>(is_floating(a.dtype()) || is_floating(b.dtype()), "addcdiv: ", a.dtype(),
                      " divided by ", b.dtype(),
                      ": convert one of the integers with to(f32), or use div and add");
  return added(input, a, b, options.value,
               [](const Tensor& a, const Tensor& b) { return div(a, b); });
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
  const DType wide = is_floating(common) ? common : f32;
  return to(x * log(where(logical_and(is_zero, is_outside), 1.0, to(y, wide))), wide);
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  const OpRange op("clamp");
  return minimum(maximum(x, low), high);
}

namespace {

/// a - b; 0 for equal infinities.
Tensor difference(const Tensor& a, const Tensor& b) {
  return where(logical_and(eq(a, b), isinf(a)), 0.0, a - b);
}

/// da = dy exp(a) / (exp(a) + exp(b)), db likewise.
struct LogaddexpBackward final : Node {
  SavedTensor a, b;
  LogaddexpBackward(const Tensor& a, const Tensor& b) : a(a), b(b) {}
  const char* name() const override { return "logaddexp"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor a = this->a.get(*this), b = this->b.get(*this);
    const auto share = [&](const Tensor& mine, const Tensor& other) {
      const Tensor slope = GradMode::is_enabled()
                               ? sigmoid(difference(mine, other))
                               : detail::compute(BinaryOp::logaddexp_slope, mine, other,
                                                 dy[0].dtype(), dy[0].dtype(), {}, "logaddexp");
      return sum_to(dy[0] * slope, mine.shape());
    };
    return {wants(0) ? share(a, b) : Tensor(), wants(1) ? share(b, a) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

/// da = dy a / y, db = dy b / y; 0 where y is 0.
struct HypotBackward final : Node {
  SavedTensor a, b, y;
  HypotBackward(const Tensor& a, const Tensor& b, const Tensor& y)
      : a(a), b(b), y(y, SavedTensor::output) {}
  const char* name() const override { return "hypot"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor a = this->a.get(*this), b = this->b.get(*this), y = this->y.get(*this);
    const Tensor divisor = masked_fill(y, eq(y, 0), 1.0);
    const auto share = [&](const Tensor& x) { return sum_to(dy[0] * (x / divisor), x.shape()); };
    return {wants(0) ? share(a) : Tensor(), wants(1) ? share(b) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
    y.reset();
  }
};

struct LerpBackward final : Node {
  double weight;
  Dims a_shape, b_shape;
  LerpBackward(double weight, const Tensor& a, const Tensor& b)
      : weight(weight), a_shape(a.shape()), b_shape(b.shape()) {}
  const char* name() const override { return "lerp"; }
  Tensors backward(const Tensors& dy) override {
    return {wants(0) ? sum_to(dy[0] * (1 - weight), a_shape) : Tensor(),
            wants(1) ? sum_to(dy[0] * weight, b_shape) : Tensor()};
  }
  void attributes(AttributeVisitor& v) override { v.real("weight", weight); }
};

struct NanToNumDerivative {
  static constexpr auto name = "nan_to_num";
  static constexpr BinaryOp op = BinaryOp::nan_to_num_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams&) {
    return masked_fill(dy, logical_not(isfinite(x)), 0.0);
  }
};

/// The dtype of the result: f32 for integers.
DType float_type(const Tensor& a, const Tensor& b, const char* op) {
  const DType common = result_type(a, b, op);
  return is_floating(common) ? common : f32;
}

}  // namespace

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  const OpRange op("logaddexp");
  const DType common = float_type(a, b, "logaddexp");
  if (TraceMode::is_enabled()) return maximum(a, b) + softplus(neg(abs(a - b)));
  const Tensor y = detail::compute(BinaryOp::logaddexp, a, b, common, common, {}, "logaddexp");
  return record<LogaddexpBackward>({a, b}, y, a, b);
}

Tensor hypot(const Tensor& a, const Tensor& b) {
  const OpRange op("hypot");
  const DType common = float_type(a, b, "hypot");
  if (TraceMode::is_enabled()) {
    const Dims shape = broadcast_shapes(a.shape(), b.shape());
    return norm(stack({to(expand(a, shape), common), to(expand(b, shape), common)}), {0});
  }
  const Tensor y = detail::compute(BinaryOp::hypot, a, b, common, common, {}, "hypot");
  return record<HypotBackward>({a, b}, y, a, b, y);
}

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  const OpRange op("lerp");
  if (TraceMode::is_enabled())  // the end that is nearer is exact
    return weight < 0.5 ? a + (b - a) * weight : b - (b - a) * (1 - weight);
  const DType common = float_type(a, b, "lerp");
  const Tensor y = detail::compute(BinaryOp::lerp, a, b, common, common, {.alpha = weight}, "lerp");
  return record<LerpBackward>({a, b}, y, weight, a, b);
}

Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options) {
  const OpRange op("nan_to_num");
  if (!is_floating(x.dtype())) return clone(x);
  double largest = std::numeric_limits<double>::max();
  if (x.dtype() == f32) largest = std::numeric_limits<float>::max();
  if (x.dtype() == bf16) largest = 0x1.fep127;
  if (x.dtype() == f16) largest = 65504;
  const double most = options.posinf.value_or(largest), least = options.neginf.value_or(-largest);
  if (TraceMode::is_enabled()) {
    const Tensor y = masked_fill(masked_fill(x, isnan(x), options.nan), isposinf(x), most);
    return masked_fill(y, isneginf(x), least);
  }
  return detail::activation_from_input<NanToNumDerivative>(
      UnaryOp::nan_to_num, x, {.alpha = options.nan, .beta = most, .gamma = least});
}

}  // namespace rondo
