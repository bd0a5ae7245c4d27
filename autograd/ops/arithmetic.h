#pragma once
// Arithmetic and comparison, with broadcasting and type promotion.
//
// Promotion (`result_type`, PyTorch's rules): the result of two tensors with dimensions has the
// dtype promote(a, b). A 0-dim tensor or a C++ number counts only by its category (bool < integer <
// float). It changes the result only if its category is higher than that of the tensors with
// dimensions. The result then has the dtype of the 0-dim tensor, or f32 for a C++ double and i64
// for an int. So f32 + 1.0 is f32, i64 + 1.5 is f32, bf16 + 0-dim f32 is bf16, and 0-dim bf16 + 1.0
// is bf16: a number never widens a tensor of its category. Dividing integers gives f32.
//
// In +, -, * and / with 16-bit floats, a number (or 0-dim tensor) is not first rounded to 16 bits:
// f16 60000 * 1e-8 is 6e-4. Comparisons, maximum and minimum do round it. Values that do not fit
// into an integer dtype wrap around.

#include <string_view>

#include "tensor/tensor.h"

namespace rondo {

/// Throws Error if an operand is undefined, and names `op`.
DType result_type(const Tensor& a, const Tensor& b, const char* op = "result_type");
DType result_type(const Tensor& a, Scalar b, const char* op = "result_type");
/// The dtype that an operand of + - * / is converted to when the result is `dtype`: f32 for a
/// number combined with 16-bit floats, else `dtype`.
DType operand_type(const Tensor& x, DType dtype);

/// a + alpha b.
Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);
/// a - alpha b.
Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);
Tensor mul(const Tensor& a, const Tensor& b);
/// True division.
Tensor div(const Tensor& a, const Tensor& b);
/// a^b. The derivative with respect to b, a^b log a, is NaN where a < 0, and 0 where a is 0 and b
/// >= 0. For integers, a negative power gives 0 (±1 for a = ±1).
Tensor pow(const Tensor& a, const Tensor& b);
/// The result is NaN if either element is. The gradient goes to the larger element, half to each in
/// a tie, and in full to both if one of them is NaN.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor atan2(const Tensor& a, const Tensor& b);
/// floor(a / b), as Python's //. No gradient. Throws Error if an integer is divided by 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
/// a - b floor(a / b), as Python's %. Throws Error if an integer is divided by 0.
Tensor remainder(const Tensor& a, const Tensor& b);
/// a - b trunc(a / b), as C's fmod: the result has the sign of a. Throws Error if an integer is
/// divided by 0.
Tensor fmod(const Tensor& a, const Tensor& b);

Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, Scalar b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, Scalar b);
Tensor floor_divide(const Tensor& a, Scalar b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor fmod(const Tensor& a, Scalar b);
/// An integer to an integer power stays an integer. Throws Error if that power is negative.
Tensor pow(const Tensor& a, Scalar exponent);
Tensor pow(Scalar base, const Tensor& exponent);

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
/// remainder
Tensor operator%(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, Scalar b);
Tensor operator-(const Tensor& a, Scalar b);
Tensor operator*(const Tensor& a, Scalar b);
Tensor operator/(const Tensor& a, Scalar b);
Tensor operator%(const Tensor& a, Scalar b);
Tensor operator+(Scalar a, const Tensor& b);
Tensor operator-(Scalar a, const Tensor& b);
Tensor operator*(Scalar a, const Tensor& b);
Tensor operator/(Scalar a, const Tensor& b);
Tensor operator-(const Tensor& a);

// In place, like add_, sub_, mul_ and div_: all tensors that share a's elements see the result,
// unlike a = a + b.
const Tensor& operator+=(const Tensor& a, const Tensor& b);
const Tensor& operator-=(const Tensor& a, const Tensor& b);
const Tensor& operator*=(const Tensor& a, const Tensor& b);
const Tensor& operator/=(const Tensor& a, const Tensor& b);
const Tensor& operator+=(const Tensor& a, Scalar b);
const Tensor& operator-=(const Tensor& a, Scalar b);
const Tensor& operator*=(const Tensor& a, Scalar b);
const Tensor& operator/=(const Tensor& a, Scalar b);

// Comparisons and logic: the result is boolean, without a gradient.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, Scalar b);
// The same as operators. A Tensor cannot be used as a condition; use all(a == b).item<bool>().
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, Scalar b);
Tensor operator!=(const Tensor& a, Scalar b);
Tensor operator<(const Tensor& a, Scalar b);
Tensor operator<=(const Tensor& a, Scalar b);
Tensor operator>(const Tensor& a, Scalar b);
Tensor operator>=(const Tensor& a, Scalar b);
Tensor operator==(Scalar a, const Tensor& b);
Tensor operator!=(Scalar a, const Tensor& b);
Tensor operator<(Scalar a, const Tensor& b);
Tensor operator<=(Scalar a, const Tensor& b);
Tensor operator>(Scalar a, const Tensor& b);
Tensor operator>=(Scalar a, const Tensor& b);

// Bit by bit, of integers and bools; without a gradient. On masks: x[~mask & (x > 0)]. A right
// shift keeps the sign. A shift by a negative number, or by more bits than there are, moves all
// bits out. Throw DTypeError for floats, and the shifts for bools.
Tensor bitwise_not(const Tensor& a);
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_and(const Tensor& a, Scalar b);
Tensor bitwise_or(const Tensor& a, Scalar b);
Tensor bitwise_xor(const Tensor& a, Scalar b);
Tensor bitwise_left_shift(const Tensor& a, Scalar b);
Tensor bitwise_right_shift(const Tensor& a, Scalar b);
// The same as operators.
Tensor operator~(const Tensor& a);
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator<<(const Tensor& a, const Tensor& b);
Tensor operator>>(const Tensor& a, const Tensor& b);
Tensor operator&(const Tensor& a, Scalar b);
Tensor operator|(const Tensor& a, Scalar b);
Tensor operator^(const Tensor& a, Scalar b);
Tensor operator<<(const Tensor& a, Scalar b);
Tensor operator>>(const Tensor& a, Scalar b);
const Tensor& operator&=(const Tensor& a, const Tensor& b);
const Tensor& operator|=(const Tensor& a, const Tensor& b);
const Tensor& operator^=(const Tensor& a, const Tensor& b);

Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
/// condition ? a : b, with broadcasting; differentiable in a and b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
Tensor where(const Tensor& condition, Scalar a, Scalar b);

// The following are composed of other ops (composed_elementwise.cpp).

struct DivOptions {
  std::string_view rounding_mode = "";  // "floor", or "trunc": towards 0
};
/// The quotient, rounded; then integers stay integers. Throws Error for another rounding_mode.
Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options);
Tensor div(const Tensor& a, Scalar b, const DivOptions& options);

struct AddcOptions {
  double value = 1;
};
/// input + value a b, and input + value a / b.
Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, AddcOptions options = {});
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, AddcOptions options = {});
/// The size of a with the sign of b.
Tensor copysign(const Tensor& a, const Tensor& b);
/// 0 where x is negative, 1 where it is positive, `values` where it is 0.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// x log(y), and 0 where x is 0, unless y is NaN.
Tensor xlogy(const Tensor& x, const Tensor& y);
/// minimum(maximum(x, low), high): high if low > high.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

/// alpha, or 1 for bools unless alpha is 0. Throws DTypeError if alpha is not an integer but
/// `dtype` is an integer type.
double checked_alpha(DType dtype, double alpha, const char* op);
/// Sums `gradient` down to `shape`: the transpose of broadcasting.
Tensor sum_to(const Tensor& gradient, const Dims& shape);

}  // namespace rondo
