#pragma once
// The scalar maths of every element-wise op, written once for all devices.
//
// `visit_unary<T>(op, params, f)` calls f with a function object T -> T, and `visit_binary` with
// one (T, T) -> T, so that a backend writes its loop once and gets it compiled for each op. T is
// the *compute* type: float (for f32, bf16, f16), double, or int64_t (for all integers and bool).
// Comparisons return T(0) or T(1).

#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/backend.h"

namespace rondo {
namespace functors {

inline constexpr double sqrt_half = 0.70710678118654752440;       // 1 / sqrt(2)
inline constexpr double sqrt_2_over_pi = 0.79788456080286535588;  // for gelu's tanh form
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
    // Unsigned, so that overflow wraps instead of being undefined.
    for (auto b = static_cast<std::uint64_t>(base); exponent > 0; exponent >>= 1, b *= b) {
      if (exponent & 1) result = static_cast<T>(static_cast<std::uint64_t>(result) * b);
    }
    return result;
  } else {
    return std::pow(base, exponent);
  }
}
/// floor(a / b) as Python has it (1 // 0.1 is 9); integers divided by zero give 0 here (the op
/// layer throws first).
template <class T>
RONDO_HD T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if (b == -1) return static_cast<T>(0 - static_cast<std::uint64_t>(a));
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  } else {
    // Python's: from the exact remainder, since a / b may round up to the next integer.
    if (b == 0) return a / b;
    T mod = std::fmod(a, b), quotient = (a - mod) / b;
    if (mod != 0 && ((b < 0) != (mod < 0))) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + 1 : whole;
  }
}
template <class T>
RONDO_HD T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return 0;
    T r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  } else {
    T r = std::fmod(a, b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  }
}
/// Addition and the like on integers wrap around, as in PyTorch.
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
template <class T>
RONDO_HD T negated(T x) {
  if constexpr (std::is_integral_v<T>) return minus(T(0), x);
  return -x;  // 0 - x would lose the sign of -0
}
/// An op's parameter as T; what is beyond the integers becomes the nearest one.
template <class T>
RONDO_HD T parameter(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (!(value > -9223372036854775808.0)) return std::numeric_limits<T>::min();
    if (value >= 9223372036854775808.0) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

/// Throws DTypeError. Out of line: a throw here would put the exception's members into the kernels
/// of each instruction set, and the linker might keep that copy for everybody.
[[noreturn]] void throw_not_on_integers();
RONDO_HD inline void refuse_integers() {
#if !defined(__CUDA_ARCH__)  // a kernel is not launched for such an op
  throw_not_on_integers();
#endif
}

}  // namespace functors

/// Ops that every compute type has.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD bool visit_unary_any(UnaryOp op, OpParams p, F&& f) {
  const T alpha = functors::parameter<T>(p.alpha), beta = functors::parameter<T>(p.beta);
  switch (op) {
    case UnaryOp::neg:
      return f([] RONDO_HD(T x) { return functors::negated(x); }), true;
    case UnaryOp::abs:  // 0 - -0 is 0
      return f([] RONDO_HD(T x) { return x <= 0 ? functors::minus(T(0), x) : x; }), true;
    case UnaryOp::sign:
      return f([] RONDO_HD(T x) { return T((x > 0) - (x < 0)); }), true;  // 0 of NaN
    case UnaryOp::square:
      return f([] RONDO_HD(T x) { return functors::times(x, x); }), true;
    case UnaryOp::relu:
      return f([] RONDO_HD(T x) { return x < 0 ? T(0) : x; }), true;
    case UnaryOp::logical_not:
      return f([] RONDO_HD(T x) { return T(x == 0); }), true;
    case UnaryOp::add_scalar:
      return f([=] RONDO_HD(T x) { return functors::plus(x, alpha); }), true;
    case UnaryOp::mul_scalar:
      return f([=] RONDO_HD(T x) { return functors::times(x, alpha); }), true;
    case UnaryOp::pow_scalar:  // by products where they err by an ulp and a half at most
      if (alpha == 2) return f([] RONDO_HD(T x) { return functors::times(x, x); }), true;
      if (alpha == 3) {
        return f([] RONDO_HD(T x) { return functors::times(functors::times(x, x), x); }), true;
      }
      return f([=] RONDO_HD(T x) { return functors::power(x, alpha); }), true;
    case UnaryOp::clamp:
      return f([=] RONDO_HD(T x) {
               T raised = x < alpha ? alpha : x;  // NaN stays
               return raised > beta ? beta : raised;
             }),
             true;
    case UnaryOp::leaky_relu:
      return f([=] RONDO_HD(T x) { return x > 0 ? x : x * alpha; }), true;
    case UnaryOp::isnan:
      return f([] RONDO_HD(T x) { return T(x != x); }), true;
    default:
      return false;
  }
}

/// Ops of floating-point numbers only.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD bool visit_unary_float(UnaryOp op, OpParams p, F&& f) {
  using namespace functors;
  switch (op) {
    case UnaryOp::exp:
      return f([] RONDO_HD(T x) { return std::exp(x); }), true;
    case UnaryOp::expm1:
      return f([] RONDO_HD(T x) { return std::expm1(x); }), true;
    case UnaryOp::log:
      return f([] RONDO_HD(T x) { return std::log(x); }), true;
    case UnaryOp::log1p:
      return f([] RONDO_HD(T x) { return std::log1p(x); }), true;
    case UnaryOp::sqrt:
      return f([] RONDO_HD(T x) { return std::sqrt(x); }), true;
    case UnaryOp::rsqrt:
      return f([] RONDO_HD(T x) { return T(1) / std::sqrt(x); }), true;
    case UnaryOp::reciprocal:
      return f([] RONDO_HD(T x) { return T(1) / x; }), true;
    case UnaryOp::sin:
      return f([] RONDO_HD(T x) { return std::sin(x); }), true;
    case UnaryOp::cos:
      return f([] RONDO_HD(T x) { return std::cos(x); }), true;
    case UnaryOp::tan:
      return f([] RONDO_HD(T x) { return std::tan(x); }), true;
    case UnaryOp::sinh:
      return f([] RONDO_HD(T x) { return std::sinh(x); }), true;
    case UnaryOp::cosh:
      return f([] RONDO_HD(T x) { return std::cosh(x); }), true;
    case UnaryOp::asin:
      return f([] RONDO_HD(T x) { return std::asin(x); }), true;
    case UnaryOp::acos:
      return f([] RONDO_HD(T x) { return std::acos(x); }), true;
    case UnaryOp::atan:
      return f([] RONDO_HD(T x) { return std::atan(x); }), true;
    case UnaryOp::tanh:
      return f([] RONDO_HD(T x) { return std::tanh(x); }), true;
    case UnaryOp::sigmoid:
      return f([] RONDO_HD(T x) { return functors::sigmoid(x); }), true;
    case UnaryOp::erf:
      return f([] RONDO_HD(T x) { return std::erf(x); }), true;
    case UnaryOp::floor:
      return f([] RONDO_HD(T x) { return std::floor(x); }), true;
    case UnaryOp::ceil:
      return f([] RONDO_HD(T x) { return std::ceil(x); }), true;
    case UnaryOp::round:
      return f([] RONDO_HD(T x) { return std::nearbyint(x); }), true;
    case UnaryOp::trunc:
      return f([] RONDO_HD(T x) { return std::trunc(x); }), true;
    case UnaryOp::gelu:
      return f([] RONDO_HD(T x) { return T(0.5) * x * (T(1) + std::erf(x * T(sqrt_half))); }), true;
    case UnaryOp::gelu_tanh:
      return f([] RONDO_HD(T x) { return T(0.5) * x * (T(1) + std::tanh(gelu_inner(x))); }), true;
    case UnaryOp::silu:
      return f([] RONDO_HD(T x) { return x / (T(1) + std::exp(-x)); }), true;
    case UnaryOp::softplus:
      return f([] RONDO_HD(T x) { return x > 20 ? x : std::log1p(std::exp(x)); }), true;
    case UnaryOp::isinf:
      return f([] RONDO_HD(T x) { return T(x == x && x - x != x - x); }), true;
    case UnaryOp::isfinite:
      return f([] RONDO_HD(T x) { return T(x - x == x - x); }), true;
    case UnaryOp::fake_quantize: {
      const T scale = T(p.alpha), inverse = T(1) / scale, low = T(p.beta), high = T(p.gamma);
      return f([=] RONDO_HD(T x) {
               T q = std::nearbyint(x * inverse);
               q = q < low ? low : q;  // NaN stays
               return (q > high ? high : q) * scale;
             }),
             true;
    }
    default:
      return false;
  }
}

/// Calls f with the function of `op`; throws DTypeError for an op that T does not have.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_unary(UnaryOp op, OpParams params, F&& f) {
  if (visit_unary_any<T>(op, params, f)) return;
  if constexpr (std::is_floating_point_v<T>) {
    if (visit_unary_float<T>(op, params, f)) return;
  }
  functors::refuse_integers();
}

/// Ops that every compute type has.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD bool visit_binary_any(BinaryOp op, OpParams p, F&& f) {
  const T alpha = functors::parameter<T>(p.alpha), beta = functors::parameter<T>(p.beta);
  switch (op) {
    case BinaryOp::add:
      if (alpha == 1) return f([] RONDO_HD(T a, T b) { return functors::plus(a, b); }), true;
      return f([=] RONDO_HD(T a, T b) { return functors::plus(a, functors::times(alpha, b)); }),
             true;
    case BinaryOp::sub:
      if (alpha == 1) return f([] RONDO_HD(T a, T b) { return functors::minus(a, b); }), true;
      return f([=] RONDO_HD(T a, T b) { return functors::minus(a, functors::times(alpha, b)); }),
             true;
    case BinaryOp::mul:
      return f([] RONDO_HD(T a, T b) { return functors::times(a, b); }), true;
    case BinaryOp::floor_divide:
      return f([] RONDO_HD(T a, T b) { return functors::floor_divide(a, b); }), true;
    case BinaryOp::remainder:
      return f([] RONDO_HD(T a, T b) { return functors::remainder(a, b); }), true;
    case BinaryOp::pow:
      return f([] RONDO_HD(T a, T b) { return functors::power(a, b); }), true;
    case BinaryOp::maximum:
      return f([] RONDO_HD(T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }), true;
    case BinaryOp::minimum:
      return f([] RONDO_HD(T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }), true;
    case BinaryOp::eq:
      return f([] RONDO_HD(T a, T b) { return T(a == b); }), true;
    case BinaryOp::ne:
      return f([] RONDO_HD(T a, T b) { return T(a != b); }), true;
    case BinaryOp::lt:
      return f([] RONDO_HD(T a, T b) { return T(a < b); }), true;
    case BinaryOp::le:
      return f([] RONDO_HD(T a, T b) { return T(a <= b); }), true;
    case BinaryOp::gt:
      return f([] RONDO_HD(T a, T b) { return T(a > b); }), true;
    case BinaryOp::ge:
      return f([] RONDO_HD(T a, T b) { return T(a >= b); }), true;
    case BinaryOp::logical_and:
      return f([] RONDO_HD(T a, T b) { return T(a != 0 && b != 0); }), true;
    case BinaryOp::logical_or:
      return f([] RONDO_HD(T a, T b) { return T(a != 0 || b != 0); }), true;
    case BinaryOp::logical_xor:
      return f([] RONDO_HD(T a, T b) { return T((a != 0) != (b != 0)); }), true;
    case BinaryOp::relu_backward:
      return f([] RONDO_HD(T dy, T y) { return y <= 0 ? T(0) : dy; }), true;
    case BinaryOp::leaky_relu_backward:
      return f([=] RONDO_HD(T dy, T x) { return x > 0 ? dy : dy * alpha; }), true;
    case BinaryOp::clamp_backward:
      return f([=] RONDO_HD(T dy, T x) { return x >= alpha && x <= beta ? dy : T(0); }), true;
    default:
      return false;
  }
}

/// Ops of floating-point numbers only.
RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD bool visit_binary_float(BinaryOp op, OpParams p, F&& f) {
  using namespace functors;
  switch (op) {
    case BinaryOp::div:
      return f([] RONDO_HD(T a, T b) { return a / b; }), true;
    case BinaryOp::atan2:
      return f([] RONDO_HD(T a, T b) { return std::atan2(a, b); }), true;
    case BinaryOp::sigmoid_backward:
      return f([] RONDO_HD(T dy, T y) { return dy * y * (T(1) - y); }), true;
    case BinaryOp::tanh_backward:
      return f([] RONDO_HD(T dy, T y) { return dy * (T(1) - y * y); }), true;
    case BinaryOp::gelu_backward:
      return f([] RONDO_HD(T dy, T x) {
               T cdf = T(0.5) * (T(1) + std::erf(x * T(sqrt_half)));
               T pdf = T(inv_sqrt_2pi) * std::exp(T(-0.5) * x * x);
               return dy * (cdf + x * pdf);
             }),
             true;
    case BinaryOp::gelu_tanh_backward:
      return f([] RONDO_HD(T dy, T x) {
               T t = std::tanh(gelu_inner(x));
               T du = T(sqrt_2_over_pi) * (T(1) + T(3 * 0.044715) * x * x);
               return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * du);
             }),
             true;
    case BinaryOp::silu_backward:
      return f([] RONDO_HD(T dy, T x) {
               T s = functors::sigmoid(x);
               return dy * s * (T(1) + x * (T(1) - s));
             }),
             true;
    case BinaryOp::fake_quantize_backward: {
      const T inverse = T(1) / T(p.alpha), low = T(p.beta), high = T(p.gamma);
      return f([=] RONDO_HD(T dy, T x) {
               const T q = std::nearbyint(x * inverse);
               return q >= low && q <= high ? dy : T(0);
             }),
             true;
    }
    default:
      return false;
  }
}

RONDO_WHERE_CALLED
template <class T, class F>
RONDO_HD void visit_binary(BinaryOp op, OpParams params, F&& f) {
  if (visit_binary_any<T>(op, params, f)) return;
  if constexpr (std::is_floating_point_v<T>) {
    if (visit_binary_float<T>(op, params, f)) return;
  }
  functors::refuse_integers();
}

}  // namespace rondo
