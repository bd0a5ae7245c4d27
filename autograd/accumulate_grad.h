#pragma once
// AccumulateGrad: the node at the end of the tape for a leaf. It adds gradients into leaf.grad. See
// Note [Gradients live in buckets] in autograd_meta.h.

#include <memory>
#include <string>
#include <vector>

#include "autograd/node.h"

namespace rondo {

struct AccumulateGrad final : Node {
  explicit AccumulateGrad(const Tensor& leaf);
  const char* name() const override { return "accumulate_grad"; }
  /// Adds dy[0] into leaf.grad. The engine has already run the leaf's hooks on dy[0].
  Tensors backward(const Tensors& dy) override;

  Tensor leaf;
  /// Which op and module used the leaf, if no `visit` shows the leaf (nn/shown.h); else empty.
  std::string unshown_in = {};
  bool is_own = false;  // whether the outermost running module shows the leaf
};

/// Called for each op on this thread that uses a leaf which is not `is_shown`. Null while no module
/// runs.
using LeafWatch = void (*)(const Node& op, AccumulateGrad& leaf);
extern thread_local constinit LeafWatch leaf_watch;

/// A leaf that no `visit` shows and that got a gradient in a backward.
struct UnshownLeaf {
  std::weak_ptr<TensorImpl> leaf;
  std::string used_in;
  bool is_own;
};
/// The unshown leaves of this thread's backwards since the last call; each leaf once.
std::vector<UnshownLeaf> take_unshown_leaves();

}  // namespace rondo
