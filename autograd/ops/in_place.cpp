// The few operations that overwrite their tensor: add_, mul_, copy_, fill_, zero_. Each asks
// check_in_place, bumps the version counter (Note [Versions] in saved_tensor.h) and puts itself
// behind the tensor, whose old place on the tape becomes its input.

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

struct AddInPlaceBackward final : Node {
  Dims shape;
  double alpha;
  AddInPlaceBackward(const Dims& shape, double alpha) : shape(shape), alpha(alpha) {}
  const char* name() const override { return "add_"; }
  Tensors backward(const Tensors& dy) override {
    if (!wants(1)) return {dy[0], Tensor()};
    Tensor db = sum_to(dy[0], shape);
    return {dy[0], alpha == 1 ? db : mul(db, alpha)};
  }
};

struct MulInPlaceBackward final : Node {
  SavedTensor a, b;  // a: the elements before they were overwritten, copied if b needs them
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

struct CopyBackward final : Node {
  Dims shape;
  explicit CopyBackward(const Dims& shape) : shape(shape) {}
  const char* name() const override { return "copy_"; }
  // The old elements are gone: what flows to them is zero.
  Tensors backward(const Tensors& dy) override {
    return {wants(0) ? zeros_like(dy[0]) : Tensor(), wants(1) ? sum_to(dy[0], shape) : Tensor()};
  }
};

struct FillBackward final : Node {
  const char* name() const override { return "fill_"; }
  Tensors backward(const Tensors& dy) override { return {zeros_like(dy[0])}; }
};

/// source as the elements to combine with x in place: x's dtype, expanded to x's shape.
Tensor operand_for(const Tensor& x, const Tensor& source, const char* op) {
  require<DeviceError>(x.device() == source.device(), op, ": tensors on ", x.device(), " and ",
                       source.device());
  DType meeting = result_type(x, source);
  require<DTypeError>(is_floating(x.dtype()) || !is_floating(meeting), op, ": a result of ",
                      meeting, " does not fit into a tensor of ", x.dtype());
  NoGradGuard guard;
  Tensor converted = to(source, x.dtype());
  return converted.as_view(x.shape(),
                           broadcast_strides(converted.shape(), converted.strides(), x.shape()),
                           converted.storage_offset());
}

}  // namespace

const Tensor& Tensor::add_(const Tensor& other, double alpha) const {
  check_in_place(*this, "add_");
  backend(*this).binary(BinaryOp::add, *this, operand_for(*this, other, "add_"), *this,
                        {.alpha = alpha});
  bump_version();
  record<AddInPlaceBackward>({*this, other}, *this, other.shape(), alpha);
  return *this;
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  check_in_place(*this, "mul_");
  Tensor operand = operand_for(*this, other, "mul_");
  Tensor before;
  if (GradMode::is_enabled() && other.requires_grad())
    before = no_grad([&] { return rondo::clone(*this); });
  backend(*this).binary(BinaryOp::mul, *this, operand, *this);
  bump_version();
  record<MulInPlaceBackward>({*this, other}, *this, before, other);
  return *this;
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  check_in_place(*this, "copy_");
  Tensor from =
      source.as_view(shape(), broadcast_strides(source.shape(), source.strides(), shape()),
                     source.storage_offset());
  if (source.device() == device()) {
    backend(*this).copy(from, *this);
  } else {
    backend(device().is_cuda() ? *this : source).copy(from, *this);
  }
  bump_version();
  record<CopyBackward>({*this, source}, *this, source.shape());
  return *this;
}

const Tensor& Tensor::fill_(Scalar value) const {
  check_in_place(*this, "fill_");
  backend(*this).fill(*this, value);
  bump_version();
  record<FillBackward>({*this}, *this);
  return *this;
}

const Tensor& Tensor::zero_() const { return fill_(0); }

}  // namespace rondo
