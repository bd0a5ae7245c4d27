#pragma once
// The node of activations that have kernels, forward and backward. Not for users.

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"

namespace rondo {
namespace detail {

/// dx = f(dy, saved) in one pass. Under create_graph, that pass could not be differentiated, so the
/// same formula is computed with ops. A Derivative has both versions.
template <class Derivative>
Tensor one_pass(const Tensor& dy, const Tensor& saved, OpParams params = {}) {
  if (GradMode::is_enabled()) return Derivative::in_ops(dy, saved, params);
  Tensor dx = Tensor::empty_like(saved);
  backend(dy).binary(Derivative::op, dy, saved, dx, params);
  return dx;
}

template <class Derivative>
struct ActivationBackward final : Node {
  SavedTensor saved;
  OpParams params;
  explicit ActivationBackward(const Tensor& x, OpParams params = {}) : saved(x), params(params) {}
  ActivationBackward(const Tensor& y, SavedTensor::OutputTag tag) : saved(y, tag) {}
  const char* name() const override { return Derivative::name; }
  Tensors backward(const Tensors& dy) override {
    return {one_pass<Derivative>(dy[0], saved.get(*this), params)};
  }
  void release_saved() override { saved.reset(); }
  void attributes(AttributeVisitor& v) override {
    if constexpr (requires { Derivative::tell(v, params); }) Derivative::tell(v, params);
  }
};

template <class Derivative>
Tensor activation_from_input(UnaryOp op, const Tensor& x, OpParams params = {}) {
  return record<ActivationBackward<Derivative>>({x}, apply_unary(op, x, params), x, params);
}
template <class Derivative>
Tensor activation_from_output(UnaryOp op, const Tensor& x) {
  Tensor y = apply_unary(op, x);
  return record<ActivationBackward<Derivative>>({x}, y, y, SavedTensor::output);
}

}  // namespace detail
}  // namespace rondo
