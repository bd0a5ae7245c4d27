#include "autograd/ops/unary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"
#include "tensor/special.h"

namespace rondo {

/// The derivative of an op, by its row below.
template <UnaryOp op>
struct UnaryDerivative;

namespace {

/// A node that saves the input: dx = dy f'(x).
template <class Derivative>
struct FromInput final : Node {
  SavedTensor x;
  explicit FromInput(const Tensor& x) : x(x) {}
  const char* name() const override { return Derivative::name; }
  Tensors backward(const Tensors& dy) override { return {Derivative::apply(dy[0], x.get(*this))}; }
  void release_saved() override { x.reset(); }
};

/// A node that saves the output, so that x can be freed: dx = dy f'(x), expressed in y.
template <class Derivative>
struct FromOutput final : Node {
  SavedTensor y;
  explicit FromOutput(const Tensor& y) : y(y, SavedTensor::output) {}
  const char* name() const override { return Derivative::name; }
  Tensors backward(const Tensors& dy) override { return {Derivative::apply(dy[0], y.get(*this))}; }
  void release_saved() override { y.reset(); }
};

/// What autocast does with the operand.
enum class Under { as_it_is, f32 };

#define RONDO_ROW(...) +1
constexpr std::size_t ops_of_all = 0 RONDO_UNARY_OPS_OF_ALL(RONDO_ROW);
#undef RONDO_ROW

template <UnaryOp op>
Tensor differentiable(Tensor x) {
  using Row = UnaryDerivative<op>;
  x.require_defined(name_of(op), "the input");
  if (Row::under == Under::f32) {
    if (const Casts cast{AutocastOp::unary_in_f32, x}) x = cast(x);
  }
  if (static_cast<std::size_t>(op) >= ops_of_all) x = as_float(x, name_of(op));
  Tensor y = apply_unary(op, x);
  if constexpr (Row::saves_output) {
    return record<FromOutput<Row>>({x}, y, y);
  } else {
    return record<FromInput<Row>>({x}, y, x);
  }
}

using functors::two_over_sqrt_pi;
constexpr double ln_2 = 0.69314718055994530942, ln_10 = 2.30258509299404568402;

/// The node of sign and rounding: the derivative is zero almost everywhere, so it saves nothing.
struct FlatBackward final : Node {
  const char* op;
  explicit FlatBackward(const char* op) : op(op) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override { return {zeros_like(dy[0])}; }
};

struct NegBackward final : Node {
  const char* name() const override { return "neg"; }
  Tensors backward(const Tensors& dy) override { return {neg(dy[0])}; }
};

/// Which gradients clamp lets through.
struct ClampBounds {
  double low, high;
  bool included;  // at the bounds, too
};
/// The number next to `bound` in the direction of `to`, in the dtype in which the kernel compares.
double next_to(double bound, double to, DType dtype) {
  if (std::isinf(bound)) return bound;
  return dtype == f64 ? std::nextafter(bound, to)
                      : std::nextafter(static_cast<float>(bound), static_cast<float>(to));
}

Tensor clamp_backward(const Tensor& dy, const Tensor& x, ClampBounds bounds);
struct ClampBackward final : Node {
  SavedTensor x;
  ClampBounds bounds;
  bool second;  // true: the derivative of clamp_backward in dy, which is the same map
  ClampBackward(const Tensor& x, ClampBounds bounds, bool second)
      : x(x), bounds(bounds), second(second) {}
  const char* name() const override { return second ? "clamp_backward" : "clamp"; }
  Tensors backward(const Tensors& dy) override {
    return {clamp_backward(dy[0], x.get(*this), bounds)};
  }
  void release_saved() override { x.reset(); }
  void attributes(AttributeVisitor& v) override {
    v.real("low", bounds.low);
    v.real("high", bounds.high);
  }
};
/// dx = dy between the bounds, else 0. The kernel passes x equal to its bounds.
Tensor clamp_backward(const Tensor& dy, const Tensor& x, ClampBounds bounds) {
  auto [low, high, included] = bounds;
  if (!included) {
    low = next_to(low, INFINITY, x.dtype());
    high = next_to(high, -INFINITY, x.dtype());
  }
  Tensor dx = Tensor::empty_like(x);
  backend(x).binary(BinaryOp::clamp_backward, dy, x, dx, {.alpha = low, .beta = high});
  return record<ClampBackward>({dy}, dx, x, bounds, true);
}
Tensor clamp_floats(const Tensor& x, ClampBounds bounds) {
  const auto [low, high, included] = bounds;
  Tensor y = std::isnan(low) || std::isnan(high)
                 ? full_like(x, NAN)
                 : apply_unary(UnaryOp::clamp, x, {.alpha = low, .beta = high});
  return record<ClampBackward>({x}, y, x, bounds, false);
}

/// Applies a test to each element; the result is boolean.
Tensor test(UnaryOp op, const Tensor& x) {
  x.require_defined(name_of(op), "the input");
  Tensor y = Tensor::empty(
      x.shape(), {.dtype = boolean, .device = x.device(), .format = x.suggested_format()});
  if (!is_floating(x.dtype()) && op != UnaryOp::logical_not) {
    backend(y).fill(y, op == UnaryOp::isfinite);  // integers are always finite
    return y;
  }
  backend(x).unary(op, x, y);
  return y;
}

/// The kernel for floats is not used, because its bounds are doubles, which cannot represent every
/// i64.
Tensor clamp_integers(const Tensor& x, Scalar low, Scalar high) {
  auto bottom = low.to<std::int64_t>(), top = high.to<std::int64_t>();
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const std::int64_t least = std::numeric_limits<T>::lowest(),
                         most = std::numeric_limits<T>::max();
      require(bottom <= most && top >= least, "clamp: no ", x.dtype(), " is between ", bottom,
              " and ", top);
      bottom = std::max(bottom, least);
      top = std::min(top, most);
    }
  });
  return minimum(maximum(x, scalar(bottom, x.options())), scalar(top, x.options()));
}

struct PolygammaBackward final : Node {
  std::int64_t n;
  SavedTensor x;
  PolygammaBackward(std::int64_t n, const Tensor& x) : n(n), x(x) {}
  const char* name() const override { return "polygamma"; }
  Tensors backward(const Tensors& dy) override { return {dy[0] * polygamma(n + 1, x.get(*this))}; }
  void release_saved() override { x.reset(); }
};

Tensor flat(const char* name, UnaryOp op, const Tensor& x) {
  return record<FlatBackward>({x}, apply_unary(op, x), name);
}
Tensor rounded(const char* name, UnaryOp op, const Tensor& x) {
  x.require_defined(name, "the input");
  return is_floating(x.dtype()) ? flat(name, op, x) : clone(x);
}

}  // namespace

// RONDO_DERIVATIVE(op, saved, under, dx) defines the op and its derivative dx, written in dy and in
// what is saved: the input x or the output y.
#define RONDO_DERIVATIVE(op, saved, autocast, ...)                                     \
  template <>                                                                          \
  struct UnaryDerivative<UnaryOp::op> {                                                \
    static constexpr auto name = #op;                                                  \
    static constexpr bool saves_output = #saved[0] == 'y';                             \
    static constexpr Under under = Under::autocast;                                    \
    static Tensor apply(const Tensor& dy, const Tensor& saved) { return __VA_ARGS__; } \
  };                                                                                   \
  Tensor op(const Tensor& x) { return differentiable<UnaryOp::op>(x); }
// clang-format off
RONDO_DERIVATIVE(abs,        x, as_it_is, dy * sign(x))
RONDO_DERIVATIVE(exp,        y, f32,      dy * y)
RONDO_DERIVATIVE(expm1,      y, f32,      dy * (y + 1))
RONDO_DERIVATIVE(log,        x, f32,      dy / x)
RONDO_DERIVATIVE(log1p,      x, f32,      dy / (x + 1))
RONDO_DERIVATIVE(exp2,       y, as_it_is, dy * (y * ln_2))
RONDO_DERIVATIVE(log2,       x, f32,      dy / (x * ln_2))
RONDO_DERIVATIVE(log10,      x, f32,      dy / (x * ln_10))
RONDO_DERIVATIVE(sqrt,       y, as_it_is, dy / (y * 2))
RONDO_DERIVATIVE(rsqrt,      y, f32,      dy * (pow(y, 3) * -0.5))
RONDO_DERIVATIVE(reciprocal, y, f32,      -(dy * square(y)))
RONDO_DERIVATIVE(square,     x, as_it_is, dy * (x * 2))
RONDO_DERIVATIVE(sin,        x, as_it_is, dy * cos(x))
RONDO_DERIVATIVE(cos,        x, as_it_is, -(dy * sin(x)))
RONDO_DERIVATIVE(tan,        y, f32,      dy * (square(y) + 1))
RONDO_DERIVATIVE(sinh,       x, f32,      dy * cosh(x))
RONDO_DERIVATIVE(cosh,       x, f32,      dy * sinh(x))
RONDO_DERIVATIVE(asin,       x, f32,      dy * rsqrt(1 - square(x)))
RONDO_DERIVATIVE(acos,       x, f32,      -(dy * rsqrt(1 - square(x))))
RONDO_DERIVATIVE(atan,       x, as_it_is, dy / (square(x) + 1))
RONDO_DERIVATIVE(asinh,      x, as_it_is, dy * rsqrt(square(x) + 1))
RONDO_DERIVATIVE(acosh,      x, as_it_is, dy * rsqrt(square(x) - 1))
RONDO_DERIVATIVE(atanh,      x, as_it_is, dy / (1 - square(x)))
RONDO_DERIVATIVE(erfc,       x, as_it_is, dy * (exp(-square(x)) * -two_over_sqrt_pi))
RONDO_DERIVATIVE(erf,        x, as_it_is, dy * (exp(-square(x)) * two_over_sqrt_pi))
RONDO_DERIVATIVE(erfinv,     y, f32,      dy * (exp(square(y)) / two_over_sqrt_pi))
RONDO_DERIVATIVE(lgamma,     x, as_it_is, dy * digamma(x))
RONDO_DERIVATIVE(digamma,    x, as_it_is, dy * polygamma(1, x))
// clang-format on
#undef RONDO_DERIVATIVE

// These have functions of their own: below,
#define RONDO_ELSEWHERE(op) \
  template <>               \
  struct UnaryDerivative<UnaryOp::op> {};
RONDO_ELSEWHERE(neg)
RONDO_ELSEWHERE(polygamma)
RONDO_ELSEWHERE(sign)
RONDO_ELSEWHERE(floor)
RONDO_ELSEWHERE(ceil)
RONDO_ELSEWHERE(round)
RONDO_ELSEWHERE(trunc)
RONDO_ELSEWHERE(clamp)
RONDO_ELSEWHERE(logical_not)
RONDO_ELSEWHERE(isnan)
RONDO_ELSEWHERE(isinf)
RONDO_ELSEWHERE(isfinite)
// in activation.cpp,
RONDO_ELSEWHERE(relu)
RONDO_ELSEWHERE(leaky_relu)
RONDO_ELSEWHERE(tanh)
RONDO_ELSEWHERE(sigmoid)
RONDO_ELSEWHERE(gelu)
RONDO_ELSEWHERE(gelu_tanh)
RONDO_ELSEWHERE(silu)
RONDO_ELSEWHERE(softplus)
// in composed_activation.cpp,
RONDO_ELSEWHERE(elu)
RONDO_ELSEWHERE(hardsigmoid)
RONDO_ELSEWHERE(hardswish)
RONDO_ELSEWHERE(hardshrink)
RONDO_ELSEWHERE(softshrink)
RONDO_ELSEWHERE(mish)
RONDO_ELSEWHERE(logsigmoid)
RONDO_ELSEWHERE(threshold)
// in composed_elementwise.cpp,
RONDO_ELSEWHERE(nan_to_num)
// in arithmetic.cpp,
RONDO_ELSEWHERE(add_scalar)
RONDO_ELSEWHERE(mul_scalar)
RONDO_ELSEWHERE(pow_scalar)
// and in extras/quantization.
RONDO_ELSEWHERE(fake_quantize)
#undef RONDO_ELSEWHERE

// An op without a row does not compile.
#define RONDO_ROW(op, ...) static_assert(sizeof(UnaryDerivative<UnaryOp::op>) > 0);
RONDO_UNARY_OPS(RONDO_ROW)
#undef RONDO_ROW

Tensor neg(const Tensor& x) {
  x.require_defined("neg", "the input");
  require<DTypeError>(x.dtype() != boolean, "neg: a bool has no negative; use logical_not");
  return record<NegBackward>({x}, apply_unary(UnaryOp::neg, x));
}
Tensor polygamma(std::int64_t n, const Tensor& x) {
  require(n >= 0 && n <= 170, "polygamma: n is ", n, "; expected 0 … 170");
  x.require_defined("polygamma", "the input");
  if (n == 0) return digamma(x);
  const Tensor input = as_float(x, "polygamma");
  const Tensor y = apply_unary(UnaryOp::polygamma, input, {.alpha = static_cast<double>(n)});
  return record<PolygammaBackward>({input}, y, n, input);
}
Tensor sign(const Tensor& x) { return flat("sign", UnaryOp::sign, x); }
Tensor floor(const Tensor& x) { return rounded("floor", UnaryOp::floor, x); }
Tensor ceil(const Tensor& x) { return rounded("ceil", UnaryOp::ceil, x); }
Tensor round(const Tensor& x) { return rounded("round", UnaryOp::round, x); }
Tensor trunc(const Tensor& x) { return rounded("trunc", UnaryOp::trunc, x); }
Tensor clamp(const Tensor& a, Scalar low, Scalar high) {
  const OpName op("clamp");
  DType dtype =
      std::max(result_type(a, low, "clamp"), result_type(a, high, "clamp"), [](DType x, DType y) {
        return category_of(x) <
               category_of(y);  // the number of the higher category decides the dtype
      });
  Tensor x = to(a, dtype);
  if (!is_floating(dtype)) return clamp_integers(x, low, high);
  return clamp_floats(x, {.low = low.to<double>(), .high = high.to<double>(), .included = false});
}
Tensor clamp_with_bounds(const Tensor& x, double low, double high) {
  return clamp_floats(x, {.low = low, .high = high, .included = true});
}
Tensor logical_not(const Tensor& x) { return test(UnaryOp::logical_not, x); }
Tensor isnan(const Tensor& x) { return test(UnaryOp::isnan, x); }
Tensor isinf(const Tensor& x) { return test(UnaryOp::isinf, x); }
Tensor isfinite(const Tensor& x) { return test(UnaryOp::isfinite, x); }
Tensor isposinf(const Tensor& x) { return eq(x, std::numeric_limits<double>::infinity()); }
Tensor isneginf(const Tensor& x) { return eq(x, -std::numeric_limits<double>::infinity()); }
Tensor signbit(const Tensor& x) {
  const Tensor is_negative = lt(x, 0);
  // 1 / -0 is -inf.
  return is_floating(x.dtype())
             ? logical_or(is_negative, lt(apply_unary(UnaryOp::reciprocal, x), 0))
             : is_negative;
}

}  // namespace rondo
