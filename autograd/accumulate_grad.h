#pragma once
// AccumulateGrad: the end of the tape at a leaf, where gradients are added into leaf.grad. See
// Note [Gradients live in buckets] in variable.h.

#include "autograd/node.h"

namespace rondo {

struct AccumulateGrad final : Node {
  explicit AccumulateGrad(const Tensor& leaf);
  const char* name() const override { return "accumulate_grad"; }
  /// Adds dy[0], on which the leaf's hooks have run (the engine sees to that), into leaf.grad.
  Tensors backward(const Tensors& dy) override;

  Tensor leaf;
};

}  // namespace rondo
