#pragma once
// The scalar arithmetic of every element-wise op, written once for all devices.
//
// `visit_unary<T>(op, params, f)` calls f with a function object T -> T, and `visit_binary` with a
// function object (T, T) -> T. So a backend writes its loop once, and the compiler instantiates it
// for each op. T is the *compute* type: float (for f32, bf16, f16), double, or int64_t (for all
// integers and bool). Comparisons return T(0) or T(1).

#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/backend.h"
#include "tensor/ops_table.h"
#include "tensor/special.h"

namespace rondo {
namespace functors {

inline constexpr double sqrt_half = 0.70710678118654752440;       // 1 / sqrt(2)
inline constexpr double sqrt_2_over_pi = 0.79788456080286535588;  // for the tanh form of gelu
inline constexpr double inv_sqrt_2pi = 0.39894228040143267794;    // the normal density at 0

template <class T>
RONDO_HD T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
/// u(x) of gelu_tanh = x (1 + tanh u) / 2.
template <class T>
RONDO_HD T gelu_inner(T x) {
  return T(sqrt_2_over_pi) * (x + T(0.044715) * x * x * x);
}
template <class T>
RONDO_HD T power(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    T result = 1;
    // Unsigned, so that overflow wraps around instead of being undefined behaviour.
    for (auto b = static_cast<std::uint64_t>(base); exponent > 0; exponent >>= 1, b *= b) {
      if (exponent & 1) result = static_cast<T>(static_cast<std::uint64_t>(result) * b);
    }
    return result;
  } else {
    return std::pow(base, exponent);
  }
}
/// fmod of floats where has_near_quotient. The remainder of the rounded quotient is exact: the
/// quotient is too large by 1 at most, so the remainder is a multiple of the last digits of a or b
/// and smaller than b.
template <class T>
RONDO_HD T near_fmod(T a, T b) {
  const T rest = std::fma(-std::trunc(a / b), b, a);
  const bool is_beyond = (rest < 0) != (a < 0) && rest != 0;
  return std::copysign(is_beyond ? rest + std::copysign(b, a) : rest, a);
}
/// |a / b| is below 2^24 for f32, below 2^53 for f64, and b is finite: so the rounded quotient, cut
/// off, is too large by 1 at most.
template <class T>
RONDO_HD bool has_near_quotient(T a, T b) {
  constexpr T limit = T(1ULL << std::numeric_limits<T>::digits);
  return std::abs(a / b) < limit && b - b == 0;
}
/// fmod of floats by a call for each number.
struct CalledFmod {
  template <class T>
  RONDO_HD T operator()(T a, T b) const {
    return std::fmod(a, b);
  }
};
struct NearFmod {
  template <class T>
  RONDO_HD T operator()(T a, T b) const {
    return near_fmod(a, b);
  }
};
/// floor(a / b) as in Python (1 // 0.1 is 9). Integers divided by zero give 0 here (the op layer
/// throws before that).
template <class Fmod = CalledFmod, class T>
RONDO_HD T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (b == -1) return static_cast<T>(0 - static_cast<std::uint64_t>(a));
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  } else {
    // Python's algorithm: uses the exact remainder, since a / b may round up to the next integer.
    if (b == 0) return a / b;
    T mod = Fmod{}(a, b), quotient = (a - mod) / b;
    if (mod != 0 && ((b < 0) != (mod < 0))) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + 1 : whole;
  }
}
template <class Fmod = CalledFmod, class T>
RONDO_HD T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return 0;
    T r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  } else {
    T r = Fmod{}(a, b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  }
}
/// a - b trunc(a / b): the result has the sign of a.
template <class T>
RONDO_HD T fmod(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == 0 || b == -1 ? 0 : a % b;
  } else {
    return std::fmod(a, b);
  }
}
template <class T>
RONDO_HD T left_shift(T a, T b) {
  return b < 0 || b > 63 ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a) << b);
}
/// Keeps the sign.
template <class T>
RONDO_HD T right_shift(T a, T b) {
  return a >> (b < 0 || b > 63 ? T(63) : b);
}
/// Integer arithmetic wraps around, as in PyTorch.
template <class T, class F>
RONDO_HD T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  } else {
    return f(a, b);
  }
}
template <class T>
RONDO_HD T plus(T a, T b) {
  return wrapping(a, b, [](auto u, auto v) { return u + v; });
}
template <class T>
RONDO_HD T minus(T a, T b) {
  return wrapping(a, b, [](auto u, auto v) { return u - v; });
}
template <class T>
RONDO_HD T times(T a, T b) {
  return wrapping(a, b, [](auto u, auto v) { return u * v; });
}
/// Whether elements of this dtype are joined in f32: sums and products of 16-bit floats.
inline bool scatters_wide(ScatterOp op, DType dtype) {
  return (op == ScatterOp::add || op == ScatterOp::prod) && is_floating(dtype) &&
         size_of(dtype) == 2;
}
/// a joined with b as a scatter does it; NaN counts as the largest and as the smallest.
template <class T>
RONDO_HD T scatter(ScatterOp op, T a, T b) {
  switch (op) {
    case ScatterOp::add:
      return plus(a, b);
    case ScatterOp::prod:
      return times(a, b);
    case ScatterOp::max:
      return a != a ? a : b != b ? b : a > b ? a : b;
    case ScatterOp::min:
      return a != a ? a : b != b ? b : a < b ? a : b;
    case ScatterOp::set:
      break;
  }
  return b;
}
template <class T>
RONDO_HD T negated(T x) {
  if constexpr (std::is_integral_v<T>) return minus(T(0), x);
  return -x;  // 0 - x would lose the sign of -0
}
/// An op's parameter as T. A value outside the integer range becomes the nearest integer.
template <class T>
RONDO_HD T parameter(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (!(value > -9223372036854775808.0)) return std::numeric_limits<T>::min();
    if (value >= 9223372036854775808.0) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <class T>
RONDO_HD T clamped(T x, T low, T high) {
  const T raised = x < low ? low : x;  // NaN stays
  return raised > high ? high : raised;
}
/// scale min(max(round(x / scale), low), high)
template <class T>
RONDO_HD T fake_quantized(T x, T scale, T inverse, T low, T high) {
  T q = std::nearbyint(x * inverse);
  q = q < low ? low : q;  // NaN stays
  return (q > high ? high : q) * scale;
}
/// Whether the gradient passes: x was not clamped.
template <class T>
RONDO_HD bool fake_quantize_passes(T x, T inverse, T low, T high) {
  const T q = std::nearbyint(x * inverse);
  return q >= low && q <= high;
}
/// scale max(x, 0) + scale alpha (exp(input_scale min(x, 0)) - 1)
template <class T>
RONDO_HD T elu(T x, T alpha, T scale, T input_scale) {
  const T below = std::expm1((x > 0 ? T(0) : x) * input_scale) * (alpha * scale);
  return x > 0 ? x * scale : below;
}
template <class T>
RONDO_HD T elu_backward(T dy, T x, T alpha, T scale, T input_scale) {
  const T below = std::exp((x > 0 ? T(0) : x) * input_scale) * (alpha * scale * input_scale);
  return dy * (x > 0 ? scale : below);
}
/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2.
template <class T>
RONDO_HD T smooth_l1(T d, T beta) {
  const T size = std::abs(d);
  return size < beta ? d * d * (T(0.5) / beta) : size - beta / 2;
}
/// max(x, 0) (1 - y) + max(-x, 0) y + log(1 + exp(-|x|)). The first two terms overflow only if the
/// loss does. A factor of 0 makes a term 0, even for infinite x.
template <class T>
RONDO_HD T bce_with_logits(T x, T y) {
  const T other = 1 - y, above = (x < 0 ? T(0) : x) * other, below = (x > 0 ? T(0) : -x) * y;
  return (other == 0 ? T(0) : above) + (y == 0 ? T(0) : below) + std::log1p(std::exp(-std::abs(x)));
}
template <class T>
RONDO_HD T gelu_backward(T dy, T x) {
  T cdf = T(0.5) * (T(1) + std::erf(x * T(sqrt_half)));
  T pdf = T(inv_sqrt_2pi) * std::exp(T(-0.5) * x * x);
  return dy * (cdf + x * pdf);
}
template <class T>
RONDO_HD T gelu_tanh_backward(T dy, T x) {
  T t = std::tanh(gelu_inner(x));
  T du = T(sqrt_2_over_pi) * (T(1) + T(3 * 0.044715) * x * x);
  return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * du);
}
template <class T>
RONDO_HD T silu_backward(T dy, T x) {
  T s = sigmoid(x);
  return dy * s * (T(1) + x * (T(1) - s));
}

template <class T>
RONDO_HD T softplus(T x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}
/// t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x)).
template <class T>
RONDO_HD T mish_backward(T dy, T x) {
  const T t = std::tanh(softplus(x));
  return dy * (t + x * (T(1) - t * t) * sigmoid(x));
}
/// log(exp(a) + exp(b)): the larger one plus log(1 + exp(-|a - b|)); equal infinities differ by 0.
template <class T>
RONDO_HD T logaddexp(T a, T b) {
  const T larger = a < b ? b : a, distance = a == b ? T(0) : std::abs(a - b);
  return larger + std::log1p(std::exp(-distance));
}
/// sqrt(a^2 + b^2), scaled so that no square overflows or underflows; infinite if a or b is.
template <class T>
RONDO_HD T hypot(T a, T b) {
  const T x = std::abs(a), y = std::abs(b);
  const T larger = x < y ? y : x, ratio = (x < y ? x : y) / larger;
  constexpr T infinite = std::numeric_limits<T>::infinity();
  const T length = larger * std::sqrt(T(1) + ratio * ratio);
  return x == infinite || y == infinite ? infinite : larger == 0 ? x + y : length;
}

/// Throws DTypeError. Defined out of line: a throw here would instantiate the exception's members
/// in the kernels of each instruction set, and the linker might keep one of those copies for all
/// callers.
[[noreturn]] void throw_not_on(const char* kind);
RONDO_HD inline void refuse([[maybe_unused]] const char* kind) {
#if !defined(__CUDA_ARCH__)  // no kernel is launched for such an op
  throw_not_on(kind);
#endif
}

}  // namespace functors

RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_unary_of_floats(UnaryOp op, OpParams params, F&& f) {
  using namespace functors;
  [[maybe_unused]] const T alpha = parameter<T>(params.alpha), beta = parameter<T>(params.beta),
                           gamma = parameter<T>(params.gamma);
  if (op == UnaryOp::pow_scalar) {  // products where their error is at most 1.5 ulp
    if (alpha == 2) return f([] RONDO_HD(T x) { return times(x, x); });
    if (alpha == 3) return f([] RONDO_HD(T x) { return times(times(x, x), x); });
  }
#define RONDO_ROW(name, maths, ...) \
  case UnaryOp::name:               \
    return f([=] RONDO_HD(T x) { return __VA_ARGS__; });
  switch (op) { RONDO_UNARY_OPS(RONDO_ROW) }
#undef RONDO_ROW
}
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_unary_of_integers(UnaryOp op, OpParams params, F&& f) {
  using namespace functors;
  [[maybe_unused]] const T alpha = parameter<T>(params.alpha), beta = parameter<T>(params.beta),
                           gamma = parameter<T>(params.gamma);
  if (op == UnaryOp::pow_scalar) {  // products where their error is at most 1.5 ulp
    if (alpha == 2) return f([] RONDO_HD(T x) { return times(x, x); });
    if (alpha == 3) return f([] RONDO_HD(T x) { return times(times(x, x), x); });
  }
#define RONDO_ROW(name, maths, ...) \
  case UnaryOp::name:               \
    return f([=] RONDO_HD(T x) { return __VA_ARGS__; });
  switch (op) {
    RONDO_UNARY_OPS_OF_ALL(RONDO_ROW)
    default:  // ops of floating-point numbers
      refuse("integers");
  }
#undef RONDO_ROW
}
/// Calls f with the function of `op` (tensor/ops_table.h). Throws DTypeError for an op that T does
/// not have.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_unary(UnaryOp op, OpParams params, F&& f) {
  if constexpr (std::is_floating_point_v<T>) {
    visit_unary_of_floats<T>(op, params, f);
  } else {
    visit_unary_of_integers<T>(op, params, f);
  }
}

RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_binary_of_floats(BinaryOp op, OpParams params, F&& f) {
  using namespace functors;
  [[maybe_unused]] const T alpha = parameter<T>(params.alpha), beta = parameter<T>(params.beta),
                           gamma = parameter<T>(params.gamma);
  if (op == BinaryOp::add && alpha == 1) return f([] RONDO_HD(T a, T b) { return plus(a, b); });
  if (op == BinaryOp::sub && alpha == 1) return f([] RONDO_HD(T a, T b) { return minus(a, b); });
#define RONDO_ROW(name, maths, ...) \
  case BinaryOp::name:              \
    return f([=] RONDO_HD(T a, T b) { return __VA_ARGS__; });
  switch (op) {
    RONDO_BINARY_OPS_OF_ALL(RONDO_ROW)
    RONDO_BINARY_OPS_OF_FLOATS(RONDO_ROW)
    default:  // ops of integers
      refuse("floating-point numbers");
  }
#undef RONDO_ROW
}
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_binary_of_integers(BinaryOp op, OpParams params, F&& f) {
  using namespace functors;
  [[maybe_unused]] const T alpha = parameter<T>(params.alpha), beta = parameter<T>(params.beta),
                           gamma = parameter<T>(params.gamma);
  if (op == BinaryOp::add && alpha == 1) return f([] RONDO_HD(T a, T b) { return plus(a, b); });
  if (op == BinaryOp::sub && alpha == 1) return f([] RONDO_HD(T a, T b) { return minus(a, b); });
#define RONDO_ROW(name, maths, ...) \
  case BinaryOp::name:              \
    return f([=] RONDO_HD(T a, T b) { return __VA_ARGS__; });
  switch (op) {
    RONDO_BINARY_OPS_OF_ALL(RONDO_ROW)
    RONDO_BINARY_OPS_OF_INTEGERS(RONDO_ROW)
    default:  // ops of floating-point numbers
      refuse("integers");
  }
#undef RONDO_ROW
}
/// Calls f with the function of `op` (tensor/ops_table.h). Throws DTypeError for an op that T does
/// not have.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_binary(BinaryOp op, OpParams params, F&& f) {
  if constexpr (std::is_floating_point_v<T>) {
    visit_binary_of_floats<T>(op, params, f);
  } else {
    visit_binary_of_integers<T>(op, params, f);
  }
}

}  // namespace rondo
