#pragma once
// Code shared by the ops of two operands. Not for users.

#include "autograd/ops/arithmetic.h"
#include "tensor/backend.h"

namespace rondo {
namespace detail {

/// The C++ number as a 0-dim tensor of the dtype in which it is combined with x. If that is a
/// 16-bit float, the tensor is f32, because 16 bits would round the number. Callers must therefore
/// pass result_type(x, value, "by_category") on: promotion of two 0-dim tensors would give f32, but
/// a number must not widen a tensor of its category.
Tensor wrapped(const Tensor& x, Scalar value, const char* op);

/// Converts a and b to `dtype`, expands them to one shape, and computes. Not recorded.
Tensor compute(BinaryOp op, const Tensor& a, const Tensor& b, DType dtype, DType out,
               OpParams params, const char* name);

}  // namespace detail
}  // namespace rondo
