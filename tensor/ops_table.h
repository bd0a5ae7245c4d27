#pragma once
// The table of element-wise ops: one row for each, ROW(name, maths, value).
//
//   name    as in UnaryOp or BinaryOp, and in profiles
//   maths   `calls` if the value calls one of the vector functions below, else `plain`
//   value   written in x (unary) or a and b (binary), of type T, and in the op's parameters
//           alpha, beta, gamma; functions without std:: are those of tensor/functors.h and
//           tensor/special.h
//
// A *_backward row gets a = dy and b = what was saved, and gives dx in one pass.
//
// The rows make the enumerations (backend.h), the functors of all devices (functors.h) and the
// names. A new unary op is a row here, a declaration in autograd/ops/unary.h and its derivative in
// autograd/ops/unary.cpp.

#include <cmath>

// The functions that rows below call and that have vector versions (glibc's libmvec), by their
// names in <cmath>.
// clang-format off
#define RONDO_VECTOR_FUNCTIONS(ROW) \
  ROW(exp) ROW(expm1) ROW(exp2) ROW(log) ROW(log1p) ROW(log2) ROW(log10) ROW(erf) ROW(erfc) \
  ROW(sin) ROW(cos) ROW(tan) ROW(asin) ROW(acos) ROW(atan) \
  ROW(sinh) ROW(cosh) ROW(tanh) ROW(asinh) ROW(acosh) ROW(atanh)
// clang-format on

// Ops of all numbers; those of integers wrap around, as in PyTorch.
#define RONDO_UNARY_OPS_OF_ALL(ROW)             \
  ROW(neg, plain, negated(x))                   \
  ROW(abs, plain, x <= 0 ? minus(T(0), x) : x)  \
  ROW(sign, plain, T((x > 0) - (x < 0)))        \
  ROW(square, plain, times(x, x))               \
  ROW(relu, plain, x < 0 ? T(0) : x)            \
  ROW(logical_not, plain, T(x == 0))            \
  ROW(isnan, plain, T(x != x))                  \
  ROW(leaky_relu, plain, x > 0 ? x : x * alpha) \
  ROW(add_scalar, plain, plus(x, alpha))        \
  ROW(mul_scalar, plain, times(x, alpha))       \
  ROW(pow_scalar, calls, power(x, alpha))       \
  ROW(clamp, plain, clamped(x, alpha, beta))

// Ops of floating-point numbers. Outside of its domain no function is called: the vector versions
// of the C library would call the scalar one for each of these numbers.
#define RONDO_UNARY_OPS_OF_FLOATS(ROW)                                                       \
  ROW(exp, calls, std::exp(x))                                                               \
  ROW(expm1, calls, std::expm1(x))                                                           \
  ROW(log, calls, or_nan(x >= 0, std::log(select(x >= 0, x, T(1)))))                         \
  ROW(log1p, calls, or_nan(x >= -1, std::log1p(select(x >= -1, x, T(0)))))                   \
  ROW(exp2, calls, std::exp2(x))                                                             \
  ROW(log2, calls, or_nan(x >= 0, std::log2(select(x >= 0, x, T(1)))))                       \
  ROW(log10, calls, or_nan(x >= 0, std::log10(select(x >= 0, x, T(1)))))                     \
  ROW(sqrt, plain, std::sqrt(x))                                                             \
  ROW(rsqrt, plain, T(1) / std::sqrt(x))                                                     \
  ROW(reciprocal, plain, T(1) / x)                                                           \
  ROW(sin, calls, std::sin(x))                                                               \
  ROW(cos, calls, std::cos(x))                                                               \
  ROW(tan, calls, std::tan(x))                                                               \
  ROW(sinh, calls, std::sinh(x))                                                             \
  ROW(cosh, calls, std::cosh(x))                                                             \
  ROW(asin, calls, or_nan(std::abs(x) <= 1, std::asin(select(std::abs(x) <= 1, x, T(0)))))   \
  ROW(acos, calls, or_nan(std::abs(x) <= 1, std::acos(select(std::abs(x) <= 1, x, T(0)))))   \
  ROW(atan, calls, std::atan(x))                                                             \
  ROW(asinh, calls, std::asinh(x))                                                           \
  ROW(acosh, calls, or_nan(x >= 1, std::acosh(select(x >= 1, x, T(2)))))                     \
  ROW(atanh, calls, or_nan(std::abs(x) <= 1, std::atanh(select(std::abs(x) <= 1, x, T(0))))) \
  ROW(tanh, calls, std::tanh(x))                                                             \
  ROW(sigmoid, calls, sigmoid(x))                                                            \
  ROW(erf, calls, std::erf(x))                                                               \
  ROW(erfc, calls, std::erfc(x))                                                             \
  ROW(erfinv, calls, functors::erfinv(x))                                                    \
  ROW(lgamma, plain, log_gamma(x))                                                           \
  ROW(digamma, calls, functors::digamma(x))                                                  \
  ROW(polygamma, calls, functors::polygamma(alpha, x))                                       \
  ROW(floor, plain, std::floor(x))                                                           \
  ROW(ceil, plain, std::ceil(x))                                                             \
  ROW(round, plain, std::nearbyint(x))                                                       \
  ROW(trunc, plain, std::trunc(x))                                                           \
  ROW(gelu, calls, T(0.5) * x * (T(1) + std::erf(x * T(sqrt_half))))                         \
  ROW(gelu_tanh, calls, T(0.5) * x * (T(1) + std::tanh(gelu_inner(x))))                      \
  ROW(silu, calls, x / (T(1) + std::exp(-x)))                                                \
  ROW(softplus, calls, functors::softplus(x))                                                \
  ROW(elu, calls, functors::elu(x, alpha, beta, gamma))                                      \
  ROW(hardsigmoid, plain, clamped(x + T(3), T(0), T(6)) / T(6))                              \
  ROW(hardswish, plain, x* clamped(x + T(3), T(0), T(6)) / T(6))                             \
  ROW(hardshrink, plain, x >= -alpha && x <= alpha ? T(0) : x)                               \
  ROW(softshrink, plain, x > alpha ? x - alpha : x < -alpha ? x + alpha : x * T(0))          \
  ROW(mish, calls, x* std::tanh(softplus(x)))                                                \
  ROW(logsigmoid, calls, (x < 0 ? x : T(0)) - std::log1p(std::exp(-std::abs(x))))            \
  ROW(threshold, plain, x <= alpha ? beta : x)                                               \
  ROW(nan_to_num, plain, x != x ? alpha : x - x == x - x ? x : x > 0 ? beta : gamma)         \
  ROW(isinf, plain, T(x == x && x - x != x - x))                                             \
  ROW(isfinite, plain, T(x - x == x - x))                                                    \
  ROW(fake_quantize, plain, fake_quantized(x, alpha, T(1) / alpha, beta, gamma))

#define RONDO_UNARY_OPS(ROW) RONDO_UNARY_OPS_OF_ALL(ROW) RONDO_UNARY_OPS_OF_FLOATS(ROW)

#define RONDO_BINARY_OPS_OF_ALL(ROW)                           \
  ROW(add, plain, plus(a, times(alpha, b)))                    \
  ROW(sub, plain, minus(a, times(alpha, b)))                   \
  ROW(mul, plain, times(a, b))                                 \
  ROW(floor_divide, plain, functors::floor_divide(a, b))       \
  ROW(remainder, plain, functors::remainder(a, b))             \
  ROW(fmod, plain, functors::fmod(a, b))                       \
  ROW(pow, calls, power(a, b))                                 \
  ROW(maximum, plain, a != a ? a : b != b ? b : a > b ? a : b) \
  ROW(minimum, plain, a != a ? a : b != b ? b : a < b ? a : b) \
  ROW(eq, plain, T(a == b))                                    \
  ROW(ne, plain, T(a != b))                                    \
  ROW(lt, plain, T(a < b))                                     \
  ROW(le, plain, T(a <= b))                                    \
  ROW(gt, plain, T(a > b))                                     \
  ROW(ge, plain, T(a >= b))                                    \
  ROW(logical_and, plain, T(a != 0 && b != 0))                 \
  ROW(logical_or, plain, T(a != 0 || b != 0))                  \
  ROW(logical_xor, plain, T((a != 0) != (b != 0)))             \
  ROW(relu_backward, plain, b <= 0 ? T(0) : a)                 \
  ROW(leaky_relu_backward, plain, b > 0 ? a : a * alpha)       \
  ROW(clamp_backward, plain, b >= alpha && b <= beta ? a : T(0))

#define RONDO_BINARY_OPS_OF_FLOATS(ROW)                                                 \
  ROW(div, plain, a / b)                                                                \
  ROW(atan2, calls, std::atan2(a, b))                                                   \
  ROW(sigmoid_backward, plain, a* b*(T(1) - b))                                         \
  ROW(tanh_backward, plain, a*(T(1) - b * b))                                           \
  ROW(gelu_backward, calls, functors::gelu_backward(a, b))                              \
  ROW(gelu_tanh_backward, calls, functors::gelu_tanh_backward(a, b))                    \
  ROW(silu_backward, calls, functors::silu_backward(a, b))                              \
  ROW(elu_backward, calls, functors::elu_backward(a, b, alpha, beta, gamma))            \
  ROW(hardsigmoid_backward, plain, b > -3 && b < 3 ? a / T(6) : T(0))                   \
  ROW(hardswish_backward, plain, b >= 3 ? a : b <= -3 ? T(0) : a * (b / T(3) + T(0.5))) \
  ROW(hardtanh_backward, plain, b <= alpha || b >= beta ? T(0) : a)                     \
  ROW(shrink_backward, plain, b >= -alpha && b <= alpha ? T(0) : a)                     \
  ROW(threshold_backward, plain, b <= alpha ? T(0) : a)                                 \
  ROW(mish_backward, calls, functors::mish_backward(a, b))                              \
  ROW(glu, calls, a* sigmoid(b))                                                        \
  ROW(logsigmoid_backward, calls, a* sigmoid(-b))                                       \
  ROW(nan_to_num_backward, plain, b - b == b - b ? a : T(0))                            \
  ROW(logaddexp, calls, functors::logaddexp(a, b))                                      \
  ROW(logaddexp_slope, calls, a == b ? T(0.5) : T(1) / (T(1) + std::exp(b - a)))        \
  ROW(hypot, plain, functors::hypot(a, b))                                              \
  ROW(lerp, plain, alpha < T(0.5) ? a + alpha * (b - a) : b - (T(1) - alpha) * (b - a)) \
  ROW(prelu, plain, a > 0 ? a : a * b)                                                  \
  ROW(smooth_l1, plain, functors::smooth_l1(a - b, alpha))                              \
  ROW(smooth_l1_backward, plain, clamped((a - b) / alpha, T(-1), T(1)))                 \
  ROW(bce_with_logits, calls, functors::bce_with_logits(a, b))                          \
  ROW(fake_quantize_backward, plain, fake_quantize_passes(b, T(1) / alpha, beta, gamma) ? a : T(0))

// Ops of integers and bools. A shift by a negative number, or by 64 or more, moves all bits out.
#define RONDO_BINARY_OPS_OF_INTEGERS(ROW)                    \
  ROW(bitwise_and, plain, (a & b))                           \
  ROW(bitwise_or, plain, a | b)                              \
  ROW(bitwise_xor, plain, a ^ b)                             \
  ROW(bitwise_left_shift, plain, functors::left_shift(a, b)) \
  ROW(bitwise_right_shift, plain, functors::right_shift(a, b))

#define RONDO_BINARY_OPS(ROW) \
  RONDO_BINARY_OPS_OF_ALL(ROW) RONDO_BINARY_OPS_OF_FLOATS(ROW) RONDO_BINARY_OPS_OF_INTEGERS(ROW)
