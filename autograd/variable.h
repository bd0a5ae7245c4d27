#pragma once
// AutogradMeta: what a tensor knows of the tape. Hangs off TensorImpl, absent on most tensors.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Note [Gradients live in buckets]
/// `grad_slot`, where set, is memory that the gradient must live in: a slice of DDP's flat bucket.
/// zero_grad only marks the gradient undefined (`grad_defined = false`); the next accumulation
/// overwrites the slot instead of adding to it. So the aliasing of .grad and bucket lasts for the
/// whole training, no step copies between them, and nothing is ever filled with zeros.
struct AutogradMeta {
  bool requires_grad = false;     // of a leaf
  bool is_decided = false;        // whether requires_grad_ was called, to say yes or no
  bool is_shown = false;          // Note [Leaves that no visit shows] in nn/shown.h
  std::shared_ptr<Node> grad_fn;  // of a non-leaf
  int output = 0;                 // which output of grad_fn this tensor is

  Tensor grad;  // meaningful while grad_defined
  bool grad_defined = false;
  Tensor grad_slot;

  std::weak_ptr<Node> accumulator;  // this leaf's AccumulateGrad, shared by all its uses

  using GradHook = std::function<Tensor(const Tensor& grad)>;
  using AccumulateHook = std::function<void(const Tensor& leaf)>;
  std::vector<std::pair<std::uint64_t, GradHook>> leaf_hooks;  // on the incoming gradient of a leaf
  std::vector<std::pair<std::uint64_t, AccumulateHook>> accumulate_hooks;  // after .grad is updated
};

/// x's AutogradMeta, created when there is none.
AutogradMeta& autograd_meta(const Tensor& x);
/// Where x's gradient goes: its grad_fn, or a leaf's AccumulateGrad; an empty edge if nowhere. A
/// view may get a new place first (renew_place in views.h).
Edge gradient_edge(const Tensor& x);

/// Handle to undo a hook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

/// Calls `hook` with each gradient that reaches x (leaf or not) before it is used, in backward and
/// in grad; what it returns replaces the gradient, unless undefined, and must be of the same shape,
/// dtype and device (ShapeError, DTypeError, DeviceError). A hook may remove itself.
HookHandle register_hook(const Tensor& x, AutogradMeta::GradHook hook);
/// Calls `hook(leaf)` each time a backward has finished adding into leaf.grad. Called by the thread
/// that runs backward; DDP counts its buckets down here.
HookHandle register_accumulate_hook(const Tensor& leaf, AutogradMeta::AccumulateHook hook);
/// Makes leaf.grad live in `slot` (same shape, dtype and device) from the first accumulation after
/// the next zero_grad on; a gradient that is there now stays where it is until then.
void set_grad_slot(const Tensor& leaf, const Tensor& slot);

}  // namespace rondo
