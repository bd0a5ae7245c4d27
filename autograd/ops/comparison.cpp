// Comparisons, ops of bits and truth values, and where, which selects by them. Only where has a
// gradient.

#include "autograd/ops/binary.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using detail::compute;
using detail::wrapped;

/// A bitwise op of integers or bools.
Tensor bitwise(BinaryOp op, const char* name, const Tensor& a, const Tensor& b, DType dtype) {
  require<DTypeError>(!is_floating(dtype), name, ": the operands give ", dtype,
                      "; expected integers or bools");
  return compute(op, a, b, dtype, dtype, {}, name);
}
Tensor bitwise(BinaryOp op, const char* name, const Tensor& a, const Tensor& b) {
  return bitwise(op, name, a, b, result_type(a, b, name));
}
Tensor bitwise(BinaryOp op, const char* name, const Tensor& a, Scalar b) {
  return bitwise(op, name, a, wrapped(a, b, name), result_type(a, b, name));
}
template <class B>
Tensor shifted(BinaryOp op, const char* name, const Tensor& a, const B& b) {
  require<DTypeError>(result_type(a, b, name) != boolean, name, ": bools cannot be shifted");
  return bitwise(op, name, a, b);
}

Tensor compare(BinaryOp op, const Tensor& a, const Tensor& b, const char* name) {
  return compute(op, a, b, result_type(a, b, name), boolean, {}, name);
}
Tensor compare(BinaryOp op, const Tensor& a, Scalar b, const char* name) {
  return compute(op, a, wrapped(a, b, name), result_type(a, b, name), boolean, {}, name);
}

struct WhereBackward final : Node {
  SavedTensor condition;
  Dims a_shape, b_shape;
  WhereBackward(const Tensor& condition, const Tensor& a, const Tensor& b)
      : condition(condition), a_shape(a.shape()), b_shape(b.shape()) {}
  const char* name() const override { return "where"; }
  Tensors backward(const Tensors& dy) override {
    Tensor zero = zeros_like(dy[0]), first = condition.get(*this);
    return {wants(0) ? sum_to(where(first, dy[0], zero), a_shape) : Tensor(),
            wants(1) ? sum_to(where(first, zero, dy[0]), b_shape) : Tensor()};
  }
  void release_saved() override { condition.reset(); }
  void attributes(AttributeVisitor& v) override { v.tensor("condition", condition.get(*this)); }
};
Tensor where_in(DType dtype, const Tensor& condition, const Tensor& a, const Tensor& b) {
  const OpName op("where");
  condition.require_defined("where", "the condition");
  require<DTypeError>(condition.dtype() == boolean, "where: the condition is ", condition.dtype(),
                      ", not bool");
  require_one_device("where", {a, b});
  require_one_device("where", {a, condition});
  Tensor left = to(a, dtype), right = to(b, dtype);
  Dims shape = broadcast_shapes(broadcast_shapes(condition.shape(), a.shape()), b.shape());
  MemoryFormat format = a.shape() == shape ? a.suggested_format() : MemoryFormat::contiguous;
  Tensor y = Tensor::empty(shape, {.dtype = dtype, .device = a.device(), .format = format});
  backend(y).where(condition.broadcast_view(shape), left.broadcast_view(shape),
                   right.broadcast_view(shape), y);
  return record<WhereBackward>({left, right}, y, condition, left, right);
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare(BinaryOp::eq, a, b, "eq"); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare(BinaryOp::ne, a, b, "ne"); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare(BinaryOp::lt, a, b, "lt"); }
Tensor le(const Tensor& a, const Tensor& b) { return compare(BinaryOp::le, a, b, "le"); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare(BinaryOp::gt, a, b, "gt"); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare(BinaryOp::ge, a, b, "ge"); }
Tensor eq(const Tensor& a, Scalar b) { return compare(BinaryOp::eq, a, b, "eq"); }
Tensor ne(const Tensor& a, Scalar b) { return compare(BinaryOp::ne, a, b, "ne"); }
Tensor lt(const Tensor& a, Scalar b) { return compare(BinaryOp::lt, a, b, "lt"); }
Tensor le(const Tensor& a, Scalar b) { return compare(BinaryOp::le, a, b, "le"); }
Tensor gt(const Tensor& a, Scalar b) { return compare(BinaryOp::gt, a, b, "gt"); }
Tensor ge(const Tensor& a, Scalar b) { return compare(BinaryOp::ge, a, b, "ge"); }
Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
Tensor operator!=(Scalar a, const Tensor& b) { return ne(b, a); }
Tensor operator<(Scalar a, const Tensor& b) { return gt(b, a); }
Tensor operator<=(Scalar a, const Tensor& b) { return ge(b, a); }
Tensor operator>(Scalar a, const Tensor& b) { return lt(b, a); }
Tensor operator>=(Scalar a, const Tensor& b) { return le(b, a); }
Tensor bitwise_not(const Tensor& a) {
  return a.dtype() == boolean ? logical_not(a)
                              : bitwise(BinaryOp::bitwise_xor, "bitwise_not", a, Scalar(-1));
}
Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return bitwise(BinaryOp::bitwise_and, "bitwise_and", a, b);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return bitwise(BinaryOp::bitwise_or, "bitwise_or", a, b);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return bitwise(BinaryOp::bitwise_xor, "bitwise_xor", a, b);
}
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  return shifted(BinaryOp::bitwise_left_shift, "bitwise_left_shift", a, b);
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  return shifted(BinaryOp::bitwise_right_shift, "bitwise_right_shift", a, b);
}
Tensor bitwise_and(const Tensor& a, Scalar b) {
  return bitwise(BinaryOp::bitwise_and, "bitwise_and", a, b);
}
Tensor bitwise_or(const Tensor& a, Scalar b) {
  return bitwise(BinaryOp::bitwise_or, "bitwise_or", a, b);
}
Tensor bitwise_xor(const Tensor& a, Scalar b) {
  return bitwise(BinaryOp::bitwise_xor, "bitwise_xor", a, b);
}
Tensor bitwise_left_shift(const Tensor& a, Scalar b) {
  return shifted(BinaryOp::bitwise_left_shift, "bitwise_left_shift", a, b);
}
Tensor bitwise_right_shift(const Tensor& a, Scalar b) {
  return shifted(BinaryOp::bitwise_right_shift, "bitwise_right_shift", a, b);
}
Tensor operator~(const Tensor& a) { return bitwise_not(a); }
Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
Tensor operator&(const Tensor& a, Scalar b) { return bitwise_and(a, b); }
Tensor operator|(const Tensor& a, Scalar b) { return bitwise_or(a, b); }
Tensor operator^(const Tensor& a, Scalar b) { return bitwise_xor(a, b); }
Tensor operator<<(const Tensor& a, Scalar b) { return bitwise_left_shift(a, b); }
Tensor operator>>(const Tensor& a, Scalar b) { return bitwise_right_shift(a, b); }
const Tensor& operator&=(const Tensor& a, const Tensor& b) { return a.copy_(bitwise_and(a, b)); }
const Tensor& operator|=(const Tensor& a, const Tensor& b) { return a.copy_(bitwise_or(a, b)); }
const Tensor& operator^=(const Tensor& a, const Tensor& b) { return a.copy_(bitwise_xor(a, b)); }
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return compare(BinaryOp::logical_and, a, b, "logical_and");
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return compare(BinaryOp::logical_or, a, b, "logical_or");
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return compare(BinaryOp::logical_xor, a, b, "logical_xor");
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return where_in(result_type(a, b, "where"), condition, a, b);
}
namespace {
/// A number as an operand of where. Integers must fit: 300 is not chosen from bytes.
Tensor chosen(const Tensor& x, Scalar value) {
  const DType dtype = result_type(x, value, "where");
  if (is_integral(dtype)) value.check_fits(dtype);
  return wrapped(x, value, "where");
}
}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  return where_in(result_type(a, b, "where"), condition, a, chosen(a, b));
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  return where_in(result_type(b, a, "where"), condition, chosen(b, a), b);
}
Tensor where(const Tensor& condition, Scalar a, Scalar b) {
  condition.require_defined("where", "the condition");
  auto number = [&condition](Scalar v) {
    return scalar(v, {.dtype = v.dtype() == f64 ? f32 : v.dtype(), .device = condition.device()});
  };
  return where(condition, number(a), number(b));
}

}  // namespace rondo
