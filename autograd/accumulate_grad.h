#pragma once
// AccumulateGrad: the end of the tape at a leaf, where gradients are added into leaf.grad. See
// Note [Gradients live in buckets] in variable.h.

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"

namespace rondo {

struct AccumulateGrad final : Node {
  explicit AccumulateGrad(const Tensor& leaf);
  const char* name() const override { return "accumulate_grad"; }
  /// Adds dy[0], on which the leaf's hooks have run (the engine sees to that), into leaf.grad.
  Tensors backward(const Tensors& dy) override;

  Tensor leaf;
  /// How a module used the leaf, if no visit shows it (nn/shown.h).
  std::string unshown_in = {};
  bool is_own = false;  // the outermost module that ran shows it
};

/// Called for each op on this thread that uses a leaf which is not `is_shown`; null: no module
/// runs.
using LeafWatch = void (*)(const Node& op, AccumulateGrad& leaf);
extern thread_local constinit LeafWatch leaf_watch;

/// A leaf with an `unshown_in` whose gradient a backward has added to.
struct UnshownLeaf {
  std::weak_ptr<TensorImpl> leaf;
  std::string used_in;
  bool is_own;
};
/// Those of this thread's backwards since the last call, each once.
std::vector<UnshownLeaf> take_unshown_leaves();

}  // namespace rondo
