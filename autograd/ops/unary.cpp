#include "autograd/ops/unary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

/// Integers take part as f32 in ops that leave the integers.
Tensor as_float(const Tensor& x) { return is_floating(x.dtype()) ? x : to(x, f32); }
Tensor as_float(AutocastOp op, const Tensor& x) {
  const Casts cast(op, x);
  return as_float(cast ? cast(x) : x);
}

/// Saves the input: dx = dy f'(x).
template <class Derivative>
struct FromInput final : Node {
  SavedTensor x;
  explicit FromInput(const Tensor& x) : x(x) {}
  const char* name() const override { return Derivative::name; }
  Tensors backward(const Tensors& dy) override { return {Derivative::apply(dy[0], x.get(*this))}; }
  void release_saved() override { x.reset(); }
};

/// Saves the output, which lets x be freed: dx = dy f'(x) written in y.
template <class Derivative>
struct FromOutput final : Node {
  SavedTensor y;
  explicit FromOutput(const Tensor& y) : y(y, SavedTensor::output) {}
  const char* name() const override { return Derivative::name; }
  Tensors backward(const Tensors& dy) override { return {Derivative::apply(dy[0], y.get(*this))}; }
  void release_saved() override { y.reset(); }
};

template <class Derivative>
Tensor from_input(UnaryOp op, const Tensor& x) {
  return record<FromInput<Derivative>>({x}, apply_unary(op, x), x);
}
template <class Derivative>
Tensor from_output(UnaryOp op, const Tensor& x) {
  Tensor y = apply_unary(op, x);
  return record<FromOutput<Derivative>>({x}, y, y);
}

// The derivatives, one row each.
struct Abs {
  static constexpr auto name = "abs";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy * sign(x); }
};
struct Exp {
  static constexpr auto name = "exp";
  static Tensor apply(const Tensor& dy, const Tensor& y) { return dy * y; }
};
struct Expm1 {
  static constexpr auto name = "expm1";
  static Tensor apply(const Tensor& dy, const Tensor& y) { return dy * (y + 1); }
};
struct Log {
  static constexpr auto name = "log";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy / x; }
};
struct Log1p {
  static constexpr auto name = "log1p";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy / (x + 1); }
};
struct Sqrt {
  static constexpr auto name = "sqrt";
  static Tensor apply(const Tensor& dy, const Tensor& y) { return dy / (y * 2); }
};
struct Rsqrt {
  static constexpr auto name = "rsqrt";
  static Tensor apply(const Tensor& dy, const Tensor& y) { return dy * (pow(y, 3) * -0.5); }
};
struct Reciprocal {
  static constexpr auto name = "reciprocal";
  static Tensor apply(const Tensor& dy, const Tensor& y) { return -(dy * square(y)); }
};
struct Square {
  static constexpr auto name = "square";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy * (x * 2); }
};
struct Sin {
  static constexpr auto name = "sin";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy * cos(x); }
};
struct Cos {
  static constexpr auto name = "cos";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return -(dy * sin(x)); }
};
struct Tan {
  static constexpr auto name = "tan";
  static Tensor apply(const Tensor& dy, const Tensor& y) { return dy * (square(y) + 1); }
};
struct Sinh {
  static constexpr auto name = "sinh";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy * cosh(x); }
};
struct Cosh {
  static constexpr auto name = "cosh";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy * sinh(x); }
};
struct Asin {
  static constexpr auto name = "asin";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy * rsqrt(1 - square(x)); }
};
struct Acos {
  static constexpr auto name = "acos";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return -(dy * rsqrt(1 - square(x))); }
};
struct Atan {
  static constexpr auto name = "atan";
  static Tensor apply(const Tensor& dy, const Tensor& x) { return dy / (square(x) + 1); }
};
struct Erf {
  static constexpr auto name = "erf";
  static Tensor apply(const Tensor& dy, const Tensor& x) {
    return dy * (exp(-square(x)) * 1.12837916709551257390);  // 2 / sqrt(pi)
  }
};

/// Of sign and of rounding: flat almost everywhere, so there is nothing to save.
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

/// dx = dy where low <= x <= high, as in PyTorch.
Tensor clamp_backward(const Tensor& dy, const Tensor& x, double low, double high);
struct ClampBackward final : Node {
  SavedTensor x;
  double low, high;
  bool second;  // this is the derivative of clamp_backward in dy, which is the same map
  ClampBackward(const Tensor& x, double low, double high, bool second)
      : x(x), low(low), high(high), second(second) {}
  const char* name() const override { return second ? "clamp_backward" : "clamp"; }
  Tensors backward(const Tensors& dy) override {
    return {clamp_backward(dy[0], x.get(*this), low, high)};
  }
  void release_saved() override { x.reset(); }
  void attributes(AttributeVisitor& v) override {
    v.real("low", low);
    v.real("high", high);
  }
};
Tensor clamp_backward(const Tensor& dy, const Tensor& x, double low, double high) {
  Tensor dx = Tensor::empty_like(x);
  backend(x).binary(BinaryOp::clamp_backward, dy, x, dx, {.alpha = low, .beta = high});
  return record<ClampBackward>({dy}, dx, x, low, high, true);
}

/// A test of each element.
Tensor test(UnaryOp op, const Tensor& x) {
  Tensor y = Tensor::empty(
      x.shape(), {.dtype = boolean, .device = x.device(), .format = x.suggested_format()});
  if (!is_floating(x.dtype()) && op != UnaryOp::logical_not) {
    backend(y).fill(y, op == UnaryOp::isfinite);  // integers are all finite
    return y;
  }
  backend(x).unary(op, x, y);
  return y;
}

/// Not by the kernel of floats, whose bounds are doubles: they do not hold every i64.
Tensor clamp_integers(const Tensor& x, Scalar low, Scalar high) {
  auto bottom = low.to<std::int64_t>(), top = high.to<std::int64_t>();
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const std::int64_t least = std::numeric_limits<T>::lowest(),
                         most = std::numeric_limits<T>::max();
      require(bottom <= most && top >= least, "clamp: no ", x.dtype(), " lies between ", bottom,
              " and ", top);
      bottom = std::max(bottom, least);
      top = std::min(top, most);
    }
  });
  return minimum(maximum(x, scalar(bottom, x.options())), scalar(top, x.options()));
}

Tensor flat(const char* name, UnaryOp op, const Tensor& x) {
  return record<FlatBackward>({x}, apply_unary(op, x), name);
}
Tensor rounded(const char* name, UnaryOp op, const Tensor& x) {
  return is_floating(x.dtype()) ? flat(name, op, x) : x;
}

}  // namespace

Tensor neg(const Tensor& x) {
  require<DTypeError>(x.dtype() != boolean, "neg: a bool has no negative; use logical_not");
  return record<NegBackward>({x}, apply_unary(UnaryOp::neg, x));
}
Tensor abs(const Tensor& x) { return from_input<Abs>(UnaryOp::abs, x); }
Tensor sign(const Tensor& x) { return flat("sign", UnaryOp::sign, x); }
Tensor exp(const Tensor& x) { return from_output<Exp>(UnaryOp::exp, as_float(AutocastOp::exp, x)); }
Tensor expm1(const Tensor& x) {
  return from_output<Expm1>(UnaryOp::expm1, as_float(AutocastOp::expm1, x));
}
Tensor log(const Tensor& x) { return from_input<Log>(UnaryOp::log, as_float(AutocastOp::log, x)); }
Tensor log1p(const Tensor& x) {
  return from_input<Log1p>(UnaryOp::log1p, as_float(AutocastOp::log1p, x));
}
Tensor sqrt(const Tensor& x) { return from_output<Sqrt>(UnaryOp::sqrt, as_float(x)); }
Tensor rsqrt(const Tensor& x) {
  return from_output<Rsqrt>(UnaryOp::rsqrt, as_float(AutocastOp::rsqrt, x));
}
Tensor reciprocal(const Tensor& x) {
  return from_output<Reciprocal>(UnaryOp::reciprocal, as_float(AutocastOp::reciprocal, x));
}
Tensor square(const Tensor& x) { return from_input<Square>(UnaryOp::square, x); }
Tensor sin(const Tensor& x) { return from_input<Sin>(UnaryOp::sin, as_float(x)); }
Tensor cos(const Tensor& x) { return from_input<Cos>(UnaryOp::cos, as_float(x)); }
Tensor tan(const Tensor& x) { return from_output<Tan>(UnaryOp::tan, as_float(AutocastOp::tan, x)); }
Tensor sinh(const Tensor& x) {
  return from_input<Sinh>(UnaryOp::sinh, as_float(AutocastOp::sinh, x));
}
Tensor cosh(const Tensor& x) {
  return from_input<Cosh>(UnaryOp::cosh, as_float(AutocastOp::cosh, x));
}
Tensor asin(const Tensor& x) {
  return from_input<Asin>(UnaryOp::asin, as_float(AutocastOp::asin, x));
}
Tensor acos(const Tensor& x) {
  return from_input<Acos>(UnaryOp::acos, as_float(AutocastOp::acos, x));
}
Tensor atan(const Tensor& x) { return from_input<Atan>(UnaryOp::atan, as_float(x)); }
Tensor erf(const Tensor& x) { return from_input<Erf>(UnaryOp::erf, as_float(x)); }
Tensor floor(const Tensor& x) { return rounded("floor", UnaryOp::floor, x); }
Tensor ceil(const Tensor& x) { return rounded("ceil", UnaryOp::ceil, x); }
Tensor round(const Tensor& x) { return rounded("round", UnaryOp::round, x); }
Tensor trunc(const Tensor& x) { return rounded("trunc", UnaryOp::trunc, x); }
Tensor clamp(const Tensor& a, Scalar low, Scalar high) {
  DType dtype = std::max(result_type(a, low), result_type(a, high), [](DType x, DType y) {
    return category_of(x) < category_of(y);  // the number of the higher category decides
  });
  Tensor x = to(a, dtype);
  if (!is_floating(dtype)) return clamp_integers(x, low, high);
  const auto bottom = low.to<double>(), top = high.to<double>();
  Tensor y = std::isnan(bottom) || std::isnan(top)
                 ? full_like(x, NAN)
                 : apply_unary(UnaryOp::clamp, x, {.alpha = bottom, .beta = top});
  return record<ClampBackward>({x}, y, x, bottom, top, false);
}
Tensor logical_not(const Tensor& x) { return test(UnaryOp::logical_not, x); }
Tensor isnan(const Tensor& x) { return test(UnaryOp::isnan, x); }
Tensor isinf(const Tensor& x) { return test(UnaryOp::isinf, x); }
Tensor isfinite(const Tensor& x) { return test(UnaryOp::isfinite, x); }

}  // namespace rondo
