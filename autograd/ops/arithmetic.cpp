#include "autograd/ops/arithmetic.h"

#include <cmath>
#include <type_traits>

#include "autograd/autocast.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using detail::compute;
using detail::wrapped;

/// The result dtype if only the category of the other operand, `weak`, counts.
DType by_category(DType strong, DType weak, DType default_of_weak) {
  return category_of(weak) > category_of(strong) ? default_of_weak : strong;
}

bool is_short_float(DType dtype) { return is_floating(dtype) && size_of(dtype) == 2; }

bool is_arithmetic(BinaryOp op) {
  return op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul || op == BinaryOp::div;
}

Tensor compute(BinaryOp op, const Tensor& a, const Tensor& b, const char* name,
               OpParams params = {}) {
  DType dtype = result_type(a, b, name);
  return compute(op, a, b, dtype, dtype, params, name);
}

/// add and sub: a + alpha b.
struct AddBackward final : Node {
  const char* op;
  Dims a_shape, b_shape;
  double alpha;
  AddBackward(const char* op, const Tensor& a, const Tensor& b, double alpha)
      : op(op), a_shape(a.shape()), b_shape(b.shape()), alpha(alpha) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    Tensor da = wants(0) ? sum_to(dy[0], a_shape) : Tensor();
    Tensor db = wants(1) ? sum_to(dy[0], b_shape) : Tensor();
    return {da, db.defined() && alpha != 1 ? mul(db, alpha) : db};
  }
  void attributes(AttributeVisitor& v) override { v.real("alpha", alpha); }  // negative for sub
};

struct MulBackward final : Node {
  SavedTensor a, b;
  Dims a_shape, b_shape;
  MulBackward(const Tensor& a, const Tensor& b)
      : a(b.requires_grad() ? a : Tensor()),
        b(a.requires_grad() ? b : Tensor()),
        a_shape(a.shape()),
        b_shape(b.shape()) {}
  const char* name() const override { return "mul"; }
  Tensors backward(const Tensors& dy) override {
    return {wants(0) ? sum_to(mul(dy[0], b.get(*this)), a_shape) : Tensor(),
            wants(1) ? sum_to(mul(dy[0], a.get(*this)), b_shape) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

struct DivBackward final : Node {
  SavedTensor a, b;
  Dims a_shape, b_shape;
  DivBackward(const Tensor& a, const Tensor& b)
      : a(b.requires_grad() ? a : Tensor()), b(b), a_shape(a.shape()), b_shape(b.shape()) {}
  const char* name() const override { return "div"; }
  Tensors backward(const Tensors& dy) override {
    Tensor divisor = b.get(*this);
    Tensor da = div(dy[0], divisor);
    Tensor db = wants(1) ? neg(mul(da, div(a.get(*this), divisor))) : Tensor();
    return {wants(0) ? sum_to(da, a_shape) : Tensor(), wants(1) ? sum_to(db, b_shape) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

struct PowBackward final : Node {
  SavedTensor a, b, y;
  Dims a_shape, b_shape;
  PowBackward(const Tensor& a, const Tensor& b, const Tensor& y)
      : a(a), b(b), y(y, SavedTensor::output), a_shape(a.shape()), b_shape(b.shape()) {}
  const char* name() const override { return "pow"; }
  Tensors backward(const Tensors& dy) override {
    Tensor base = a.get(*this), exponent = b.get(*this);
    Tensor da, db;
    if (wants(0)) {  // 0 where b is 0, whatever a^(b - 1) is
      Tensor lower = sub(masked_fill(exponent, eq(exponent, 0), 1), 1);
      da = sum_to(mul(dy[0], mul(exponent, pow(base, lower))), a_shape);
    }
    if (wants(1)) {
      Tensor flat = logical_and(eq(base, 0), ge(exponent, 0));  // 0^b stays 0
      const Tensor logarithm = log(to(masked_fill(base, flat, 1), dy[0].dtype()));
      db = sum_to(mul(dy[0], mul(y.get(*this), logarithm)), b_shape);
    }
    return {da, db};
  }
  void release_saved() override {
    a.reset();
    b.reset();
    y.reset();
  }
};

struct PowScalarBackward final : Node {
  SavedTensor x;
  double exponent;
  PowScalarBackward(const Tensor& x, double exponent) : x(x), exponent(exponent) {}
  const char* name() const override { return "pow"; }
  Tensors backward(const Tensors& dy) override {
    if (exponent == 0) return {zeros_like(dy[0])};
    return {mul(dy[0], mul(pow(x.get(*this), exponent - 1), exponent))};
  }
  void release_saved() override { x.reset(); }
  void attributes(AttributeVisitor& v) override { v.real("exponent", exponent); }
};

/// maximum and minimum: an operand gets the gradient where it was chosen, half of it in a tie. (If
/// one of them is NaN, both get it in full.)
struct MaximumBackward final : Node {
  SavedTensor a, b;
  bool largest;
  MaximumBackward(const Tensor& a, const Tensor& b, bool largest) : a(a), b(b), largest(largest) {}
  const char* name() const override { return largest ? "maximum" : "minimum"; }
  Tensors backward(const Tensors& dy) override {
    Tensor left = a.get(*this), right = b.get(*this);
    Tensor shared = where(eq(left, right), mul(dy[0], 0.5), dy[0]);
    auto share = [&](const Tensor& mine, const Tensor& other) {
      Tensor lost = largest ? lt(mine, other) : gt(mine, other);
      return sum_to(masked_fill(shared, lost, 0.0), mine.shape());
    };
    return {wants(0) ? share(left, right) : Tensor(), wants(1) ? share(right, left) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

struct Atan2Backward final : Node {
  SavedTensor a, b;
  Atan2Backward(const Tensor& a, const Tensor& b) : a(a), b(b) {}
  const char* name() const override { return "atan2"; }
  Tensors backward(const Tensors& dy) override {
    Tensor y = a.get(*this), x = b.get(*this);
    Tensor squares = add(square(y), square(x));
    Tensor g =
        div(dy[0], masked_fill(squares, eq(squares, 0), 1.0));  // at (0, 0) the gradient is 0
    return {wants(0) ? sum_to(mul(g, x), y.shape()) : Tensor(),
            wants(1) ? sum_to(neg(mul(g, y)), x.shape()) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

/// remainder and fmod: the rounded quotient is constant between its jumps: da = dy, db = -quotient
/// dy.
struct RemainderBackward final : Node {
  BinaryOp op;
  SavedTensor a, b;
  Dims a_shape, b_shape;
  RemainderBackward(BinaryOp op, const Tensor& a, const Tensor& b)
      : op(op),
        a(b.requires_grad() ? a : Tensor()),
        b(b.requires_grad() ? b : Tensor()),
        a_shape(a.shape()),
        b_shape(b.shape()) {}
  const char* name() const override { return op == BinaryOp::fmod ? "fmod" : "remainder"; }
  Tensors backward(const Tensors& dy) override {
    if (!wants(1)) return {sum_to(dy[0], a_shape), Tensor()};
    const Tensor left = a.get(*this), right = b.get(*this);
    const Tensor quotient =
        op == BinaryOp::fmod ? trunc(div(left, right)) : floor_divide(left, right);
    return {wants(0) ? sum_to(dy[0], a_shape) : Tensor(),
            neg(sum_to(mul(dy[0], quotient), b_shape))};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

DType float_type(DType dtype) { return is_floating(dtype) ? dtype : f32; }

// The ops for a given result dtype, used for tensors and numbers.

Tensor add_in(DType dtype, const Tensor& a, const Tensor& b, double alpha) {
  alpha = checked_alpha(dtype, alpha, "add");
  return record<AddBackward>({a, b},
                             compute(BinaryOp::add, a, b, dtype, dtype, {.alpha = alpha}, "add"),
                             "add", a, b, alpha);
}
Tensor sub_in(DType dtype, const Tensor& a, const Tensor& b, double alpha) {
  require<DTypeError>(a.dtype() != boolean && b.dtype() != boolean, "sub: ", a.dtype(), " minus ",
                      b.dtype(),
                      ": a bool cannot be subtracted (it would be computed modulo 2); use "
                      "logical_not, logical_xor or ne, or convert it with to(f32)");
  alpha = checked_alpha(dtype, alpha, "sub");
  return record<AddBackward>({a, b},
                             compute(BinaryOp::sub, a, b, dtype, dtype, {.alpha = alpha}, "sub"),
                             "sub", a, b, -alpha);
}
Tensor mul_in(DType dtype, const Tensor& a, const Tensor& b) {
  return record<MulBackward>({a, b}, compute(BinaryOp::mul, a, b, dtype, dtype, {}, "mul"), a, b);
}
Tensor div_in(DType dtype, const Tensor& a, const Tensor& b) {
  dtype = float_type(dtype);
  return record<DivBackward>({a, b}, compute(BinaryOp::div, a, b, dtype, dtype, {}, "div"), a, b);
}
/// A number as an operand of a quotient, which is a float: u8 has no 256, but x / 256 exists.
Tensor wrapped_for_div(const Tensor& x, Scalar value) {
  x.require_defined("div", "the tensor");
  return wrapped(x, is_floating(x.dtype()) ? value : Scalar(value.to<double>()), "div");
}
void check_divisor(const Tensor& b, DType dtype, const char* op) {
  if (is_floating(dtype)) return;
  require(!any(eq(b, 0)).item<bool>(), op, ": an integer is divided by zero");
}
/// A number is checked here, without waiting for the device. u8 has no 256: it is 0 there.
void check_divisor(Scalar b, DType dtype, const char* op) {
  const bool is_zero = visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) return b.cast<T>() == T(0);
    return false;
  });
  require(!is_zero, op, ": an integer is divided by zero");
}
const Tensor& operand(const Tensor&, const Tensor& b, const char*) { return b; }
Tensor operand(const Tensor& a, Scalar b, const char* op) { return wrapped(a, b, op); }
/// The quotient and the remainders. B is Tensor or Scalar.
template <class B>
Tensor floor_quotient(const Tensor& a, const B& b) {
  const char* name = "floor_divide";
  const DType dtype = result_type(a, b, name);
  check_divisor(b, dtype, name);
  return compute(BinaryOp::floor_divide, a, operand(a, b, name), dtype, dtype, {}, name);
}
template <class B>
Tensor remainder_of(BinaryOp op, const char* name, const Tensor& a, const B& b) {
  const DType dtype = result_type(a, b, name);
  check_divisor(b, dtype, name);
  const Tensor& divisor = operand(a, b, name);
  return record<RemainderBackward>({a, divisor}, compute(op, a, divisor, dtype, dtype, {}, name),
                                   op, a, divisor);
}

}  // namespace

Tensor detail::wrapped(const Tensor& x, Scalar value, const char* op) {
  DType dtype = result_type(x, value, op);
  Tensor y =
      Tensor::empty({}, {.dtype = is_short_float(dtype) ? f32 : dtype, .device = x.device()});
  backend(y).fill(y, value);  // unlike scalar(), wraps numbers that do not fit
  return y;
}

Tensor detail::compute(BinaryOp op, const Tensor& a, const Tensor& b, DType dtype, DType out,
                       OpParams params, const char* name) {
  const OpName name_of_errors(name);
  require_one_device(name, {a, b});
  NoGradGuard guard;
  Dims shape = broadcast_shapes(a.shape(), b.shape());
  const bool reads_as_f64 = dtype == f64 && (a.dtype() == f64 || b.dtype() == f64);
  auto operand = [&](const Tensor& x) {
    // A repeated operand is converted, each element once.
    const bool stays = reads_as_f64 && x.shape() == shape;
    Tensor converted = stays ? x : to(x, is_arithmetic(op) ? operand_type(x, dtype) : dtype);
    return converted.shape() == shape ? converted : converted.broadcast_view(shape);
  };
  Tensor left = operand(a), right = operand(b);
  // Use the layout of the operand that has the full shape: channels_last stays channels_last.
  const Tensor& model = a.shape() == shape ? a : b;
  MemoryFormat format =
      model.shape() == shape ? model.suggested_format() : MemoryFormat::contiguous;
  Tensor y = Tensor::empty(shape, {.dtype = out, .device = a.device(), .format = format});
  backend(y).binary(op, left, right, y, params);
  return y;
}

DType result_type(const Tensor& a, const Tensor& b, const char* op) {
  a.require_defined(op, "the left operand");
  b.require_defined(op, "the right operand");
  bool a_weak = a.dim() == 0, b_weak = b.dim() == 0;
  if (a_weak == b_weak) return promote(a.dtype(), b.dtype());
  return a_weak ? by_category(b.dtype(), a.dtype(), a.dtype())
                : by_category(a.dtype(), b.dtype(), b.dtype());
}

DType operand_type(const Tensor& x, DType dtype) {
  const bool meets_in_f32 =
      x.dim() == 0 && is_short_float(dtype) && is_floating(x.dtype()) && x.dtype() != dtype;
  return meets_in_f32 ? f32 : dtype;
}

DType result_type(const Tensor& a, Scalar b, const char* op) {
  a.require_defined(op, "the tensor");
  return by_category(a.dtype(), b.dtype(), b.dtype() == f64 ? f32 : b.dtype());
}

Tensor sum_to(const Tensor& gradient, const Dims& shape) {
  if (gradient.shape() == shape) return gradient;
  std::int64_t extra = gradient.dim() - shape.size();
  Dims dims;
  for (std::int64_t d = 0; d < gradient.dim(); ++d) {
    if (d < extra || (shape[d - extra] == 1 && gradient.size(d) != 1)) dims.push_back(d);
  }
  Tensor reduced = dims.empty() ? gradient : sum(gradient, dims, true);
  return reshape(reduced, shape);
}

double checked_alpha(DType dtype, double alpha, const char* op) {
  require<DTypeError>(is_floating(dtype) || alpha == std::trunc(alpha), op, ": alpha is ", alpha,
                      ", but tensors of ", dtype, " need an integer; convert them with to(f32)");
  return dtype == boolean && alpha != 0 ? 1 : alpha;
}

Tensor add(const Tensor& a, const Tensor& b, double alpha) {
  return add_in(result_type(a, b, "add"), a, b, alpha);
}
Tensor sub(const Tensor& a, const Tensor& b, double alpha) {
  return sub_in(result_type(a, b, "sub"), a, b, alpha);
}
Tensor mul(const Tensor& a, const Tensor& b) { return mul_in(result_type(a, b, "mul"), a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return div_in(result_type(a, b, "div"), a, b); }
Tensor pow(const Tensor& a, const Tensor& b) {
  if (const Casts cast{AutocastOp::pow, a}) return pow(cast(a), cast(b));
  Tensor y = compute(BinaryOp::pow, a, b, "pow");
  return record<PowBackward>({a, b}, y, a, b, y);
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  return record<MaximumBackward>({a, b}, compute(BinaryOp::maximum, a, b, "maximum"), a, b, true);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return record<MaximumBackward>({a, b}, compute(BinaryOp::minimum, a, b, "minimum"), a, b, false);
}
Tensor atan2(const Tensor& a, const Tensor& b) {
  DType dtype = float_type(result_type(a, b, "atan2"));
  return record<Atan2Backward>({a, b}, compute(BinaryOp::atan2, a, b, dtype, dtype, {}, "atan2"), a,
                               b);
}
Tensor floor_divide(const Tensor& a, const Tensor& b) { return floor_quotient(a, b); }
Tensor remainder(const Tensor& a, const Tensor& b) {
  return remainder_of(BinaryOp::remainder, "remainder", a, b);
}
Tensor fmod(const Tensor& a, const Tensor& b) { return remainder_of(BinaryOp::fmod, "fmod", a, b); }

Tensor add(const Tensor& a, Scalar b) {
  return add_in(result_type(a, b, "add"), a, wrapped(a, b, "add"), 1);
}
Tensor sub(const Tensor& a, Scalar b) {
  return sub_in(result_type(a, b, "sub"), a, wrapped(a, b, "sub"), 1);
}
Tensor mul(const Tensor& a, Scalar b) {
  return mul_in(result_type(a, b, "mul"), a, wrapped(a, b, "mul"));
}
Tensor div(const Tensor& a, Scalar b) {
  return div_in(result_type(a, b, "div"), a, wrapped_for_div(a, b));
}
Tensor floor_divide(const Tensor& a, Scalar b) { return floor_quotient(a, b); }
Tensor remainder(const Tensor& a, Scalar b) {
  return remainder_of(BinaryOp::remainder, "remainder", a, b);
}
Tensor fmod(const Tensor& a, Scalar b) { return remainder_of(BinaryOp::fmod, "fmod", a, b); }
Tensor pow(const Tensor& a, Scalar exponent) {
  if (const Casts cast{AutocastOp::pow, a}) return pow(cast(a), exponent);
  DType dtype = result_type(a, exponent, "pow");
  const auto power = exponent.to<double>();
  require(is_floating(dtype) || power >= 0, "pow: integers have no power of ", power,
          "; convert them to a float first");
  Tensor x = to(a, dtype), y = apply_unary(UnaryOp::pow_scalar, x, {.alpha = power});
  return record<PowScalarBackward>({x}, y, x, power);
}
Tensor pow(Scalar base, const Tensor& exponent) {
  if (const Casts cast{AutocastOp::pow, exponent}) return pow(base, cast(exponent));
  const DType dtype = result_type(exponent, base, "pow");
  return pow(scalar(base, {.dtype = dtype, .device = exponent.device()}), to(exponent, dtype));
}

Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
Tensor operator-(Scalar a, const Tensor& b) {
  return sub_in(result_type(b, a, "sub"), wrapped(b, a, "sub"), b, 1);
}
Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
Tensor operator/(Scalar a, const Tensor& b) {
  return div_in(result_type(b, a, "div"), wrapped_for_div(b, a), b);
}
Tensor operator-(const Tensor& a) { return neg(a); }

const Tensor& operator+=(const Tensor& a, const Tensor& b) { return a.add_(b); }
const Tensor& operator-=(const Tensor& a, const Tensor& b) { return a.sub_(b); }
const Tensor& operator*=(const Tensor& a, const Tensor& b) { return a.mul_(b); }
const Tensor& operator/=(const Tensor& a, const Tensor& b) { return a.div_(b); }
const Tensor& operator+=(const Tensor& a, Scalar b) { return a.add_(b); }
const Tensor& operator-=(const Tensor& a, Scalar b) { return a.sub_(b); }
const Tensor& operator*=(const Tensor& a, Scalar b) { return a.mul_(b); }
const Tensor& operator/=(const Tensor& a, Scalar b) { return a.div_(b); }
const Tensor& Tensor::add_(Scalar other) const { return add_(wrapped(*this, other, "add_")); }
const Tensor& Tensor::sub_(Scalar other) const { return sub_(wrapped(*this, other, "sub_")); }
const Tensor& Tensor::mul_(Scalar other) const { return mul_(wrapped(*this, other, "mul_")); }
const Tensor& Tensor::div_(Scalar other) const { return div_(wrapped(*this, other, "div_")); }

}  // namespace rondo
