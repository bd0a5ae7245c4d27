// The operations that overwrite their tensor: add_, sub_, mul_, div_, copy_, fill_, zero_. Each
// calls check_in_place, writes, and records its node: the tensor gets the node as its grad_fn, and
// its old place on the tape becomes an input of the node. If the tensor is a view, its base gets
// the node (Note [Views follow their base] in views.h). Last, the op increments the version counter
// (Note [Versions] in saved_tensor.h). After that, other views have an old place.
//
// A kernel may read and write the same view, but not two different views that overlap: it would
// read elements that it has already written. Such an operand is copied first. A target whose
// elements overlap each other is refused.

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

struct AddInPlaceBackward final : Node {
  const char* op;
  Dims shape;
  double alpha;
  AddInPlaceBackward(const char* op, const Dims& shape, double alpha)
      : op(op), shape(shape), alpha(alpha) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    if (!wants(1)) return {dy[0], Tensor()};
    Tensor db = sum_to(dy[0], shape);
    return {dy[0], alpha == 1 ? db : mul(db, alpha)};
  }
};

struct MulInPlaceBackward final : Node {
  SavedTensor a, b;  // a: the elements before they were overwritten, copied if b's gradient needs
                     // them
  Dims b_shape;
  MulInPlaceBackward(const Tensor& a_before, const Tensor& b)
      : a(a_before), b(b), b_shape(b.shape()) {}
  const char* name() const override { return "mul_"; }
  Tensors backward(const Tensors& dy) override {
    return {wants(0) ? mul(dy[0], b.get(*this)) : Tensor(),
            wants(1) ? sum_to(mul(dy[0], a.get(*this)), b_shape) : Tensor()};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

struct DivInPlaceBackward final : Node {
  SavedTensor a, b;  // as for mul_
  Dims b_shape;
  DivInPlaceBackward(const Tensor& a_before, const Tensor& b)
      : a(a_before), b(b), b_shape(b.shape()) {}
  const char* name() const override { return "div_"; }
  Tensors backward(const Tensors& dy) override {
    Tensor divisor = b.get(*this), da = div(dy[0], divisor);
    if (!wants(1)) return {da, Tensor()};
    return {da, sum_to(neg(mul(da, div(a.get(*this), divisor))), b_shape)};
  }
  void release_saved() override {
    a.reset();
    b.reset();
  }
};

struct CopyIntoBackward final : Node {
  Dims shape;
  explicit CopyIntoBackward(const Dims& shape) : shape(shape) {}
  const char* name() const override { return "copy_"; }
  // The old elements are lost, so their gradient is zero.
  Tensors backward(const Tensors& dy) override {
    return {wants(0) ? zeros_like(dy[0]) : Tensor(), wants(1) ? sum_to(dy[0], shape) : Tensor()};
  }
};

struct FillBackward final : Node {
  const char* name() const override { return "fill_"; }
  Tensors backward(const Tensors& dy) override { return {zeros_like(dy[0])}; }
};

/// The address range of x's elements: the first byte, and one past the last.
std::pair<const char*, const char*> span_of(const Tensor& x) {
  std::int64_t first = 0, last = 0;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    const std::int64_t reach = (x.size(d) - 1) * x.stride(d);
    (reach < 0 ? first : last) += reach;
  }
  const auto* at = static_cast<const char*>(x.data_ptr());
  return {at + first * size_of(x.dtype()), at + (last + 1) * size_of(x.dtype())};
}

bool may_overlap(const Tensor& x, const Tensor& y) {
  // By address: two tensors that from_blob made may have parts of the same memory.
  if (x.device() != y.device() || x.numel() == 0 || y.numel() == 0) return false;
  const auto [x_begin, x_end] = span_of(x);
  const auto [y_begin, y_end] = span_of(y);
  return x_begin < y_end && y_begin < x_end;
}

bool same_view(const Tensor& x, const Tensor& y) {
  return x.storage() == y.storage() && x.storage_offset() == y.storage_offset() &&
         x.shape() == y.shape() && x.strides() == y.strides();
}

/// source; or a (recorded) copy of it if writing to x would change it while the kernel reads it.
Tensor apart(const Tensor& x, const Tensor& source) {
  return may_overlap(x, source) && !same_view(x, source) ? clone(source) : source;
}

/// source as an operand for x: converted to operand_type, expanded to x's shape.
Tensor operand_for(const Tensor& x, const Tensor& source, const char* op) {
  require_one_device(op, {x, source});
  DType meeting = result_type(x, source, op);
  require<DTypeError>(category_of(meeting) <= category_of(x.dtype()), op, ": a result of ", meeting,
                      " does not fit into a tensor of ", x.dtype());
  return no_grad([&] { return to(source, operand_type(source, x.dtype())); })
      .broadcast_view(x.shape());
}

/// x += alpha other.
void add_in_place(const char* op, const Tensor& x, const Tensor& other, double alpha) {
  const OpName name(op);
  other.require_defined(op, "the right operand");
  check_in_place(x, op, other);
  alpha = checked_alpha(x.dtype(), alpha, op);
  require_distinct_elements(x, op);
  Tensor term = apart(x, other);
  backend(x).binary(BinaryOp::add, x, operand_for(x, term, op), x, {.alpha = alpha});
  record_in_place<AddInPlaceBackward>({x, term}, x, op, term.shape(), alpha);
  x.bump_version();
}

/// x *= other, or x /= other.
template <class Backward>
void scale_in_place(const char* op, BinaryOp kernel, const Tensor& x, const Tensor& other) {
  const OpName name(op);
  other.require_defined(op, "the right operand");
  check_in_place(x, op, other);
  require_distinct_elements(x, op);
  // If the factor shares elements that are about to change, as in x.mul_(x), backward needs a copy.
  // The copy also prevents a cycle: the node would otherwise save the tensor whose grad_fn it
  // becomes.
  const Tensor both[] = {x, other};
  Tensor factor =
      any_requires_grad(both) && may_overlap(x, other) ? rondo::clone(other) : apart(x, other);
  Tensor before = any_requires_grad({&other, 1}) ? rondo::clone(x) : Tensor();
  backend(x).binary(kernel, x, operand_for(x, factor, op), x);
  record_in_place<Backward>({x, factor}, x, before, factor);
  x.bump_version();
}

}  // namespace

const Tensor& Tensor::add_(const Tensor& other, double alpha) const {
  add_in_place("add_", *this, other, alpha);
  return *this;
}

const Tensor& Tensor::sub_(const Tensor& other, double alpha) const {
  other.require_defined("sub_", "the right operand");
  require<DTypeError>(dtype() != boolean && other.dtype() != boolean,
                      "sub_: a bool cannot be subtracted; use logical_xor or to(f32)");
  add_in_place("sub_", *this, other, -alpha);
  return *this;
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  scale_in_place<MulInPlaceBackward>("mul_", BinaryOp::mul, *this, other);
  return *this;
}

const Tensor& Tensor::div_(const Tensor& other) const {
  require<DTypeError>(is_floating(dtype()), "div_: a quotient does not fit into a tensor of ",
                      dtype(), "; use floor_divide, or x = x / y");
  scale_in_place<DivInPlaceBackward>("div_", BinaryOp::div, *this, other);
  return *this;
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  const OpName op("copy_");
  source.require_defined("copy_", "the source");
  check_in_place(*this, "copy_", source);
  require_distinct_elements(*this, "copy_");
  Tensor from = apart(*this, source);
  // A device's backend can also access the host's memory.
  backend(device().is_cpu() ? source : *this).copy(from.broadcast_view(shape()), *this);
  record_in_place<CopyIntoBackward>({*this, from}, *this, from.shape());
  bump_version();
  return *this;
}

const Tensor& Tensor::fill_(Scalar value) const {
  const OpName op("fill_");
  check_in_place(*this, "fill_");
  value.check_fits(dtype());
  backend(*this).fill(*this, value);
  record_in_place<FillBackward>({*this}, *this);
  bump_version();
  return *this;
}

const Tensor& Tensor::zero_() const { return fill_(0); }

}  // namespace rondo
