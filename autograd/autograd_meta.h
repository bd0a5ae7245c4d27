#pragma once
// AutogradMeta: a tensor's autograd state. TensorImpl owns it; most tensors have none.

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Note [Gradients live in buckets]
/// `grad_slot`, if set, is the memory that the gradient must be stored in: a slice of DDP's flat
/// bucket. zero_grad only marks the gradient undefined (`grad_defined = false`); the next
/// accumulation overwrites the slot instead of adding to it. So .grad and the bucket share memory
/// for the whole training, no step copies between them, and nothing is ever filled with zeros.
struct AutogradMeta {
  bool requires_grad = false;     // of a leaf
  bool is_decided = false;        // whether requires_grad_ was called, with true or false
  bool is_piece = false;          // dist::ZeroSharding: other ranks have the other pieces
  bool is_shown = false;          // Note [Leaves that no visit shows] in nn/shown.h
  std::shared_ptr<Node> grad_fn;  // of a non-leaf
  int output = 0;                 // which output of grad_fn this tensor is
  bool retains_grad = false;      // of a non-leaf: retain_grad was called

  Tensor grad;  // meaningful while grad_defined
  bool grad_defined = false;
  Tensor grad_slot;

  std::weak_ptr<Node> accumulator;  // this leaf's AccumulateGrad, shared by all its uses

  using GradHook = std::function<Tensor(const Tensor& grad)>;
  using AccumulateHook = std::function<void(const Tensor& leaf)>;
  std::vector<std::pair<std::uint64_t, GradHook>> leaf_hooks;  // on the incoming gradient of a leaf
  std::vector<std::pair<std::uint64_t, AccumulateHook>> accumulate_hooks;  // after .grad is updated
};

/// x's AutogradMeta; creates it if x has none.
AutogradMeta& autograd_meta(const Tensor& x);
/// Where x's gradient goes: to its grad_fn, or to a leaf's AccumulateGrad; an empty edge if x needs
/// no gradient. A view may get a new place first (renew_place in views.h).
Edge gradient_edge(const Tensor& x);

/// Makes output `output` of `node` x's place on the tape. The hook of retain_grad moves there.
void set_grad_fn(const Tensor& x, const std::shared_ptr<Node>& node, int output);
/// Takes the hook of retain_grad off x's node; set_grad_fn puts it on the next one.
void lift_retain_hook(const Tensor& x);

/// Handle that removes a hook.
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

/// Calls `hook` with each gradient that reaches x (leaf or not) before the gradient is used, in
/// backward and in grad. If the hook returns a defined tensor, that replaces the gradient; it must
/// have the same shape, dtype and device (ShapeError, DTypeError, DeviceError). A hook may remove
/// itself.
HookHandle register_hook(const Tensor& x, AutogradMeta::GradHook hook);
/// Calls `hook(leaf)` each time a backward has finished adding into leaf.grad, on the thread that
/// runs backward. DDP uses it to count how many gradients of a bucket are complete.
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf,
                                              AutogradMeta::AccumulateHook hook);

template <class F>
HookHandle Tensor::register_hook(F hook) const {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const Tensor&>>) {
    return rondo::register_hook(*this, [hook = std::move(hook)](const Tensor& gradient) mutable {
      hook(gradient);
      return Tensor();
    });
  } else {
    return rondo::register_hook(*this, std::move(hook));
  }
}
template <class F>
HookHandle Tensor::register_post_accumulate_grad_hook(F hook) const {
  return rondo::register_post_accumulate_grad_hook(*this, std::move(hook));
}

/// Makes leaf.grad live in `slot` (same shape, dtype and device), from the first accumulation after
/// the next zero_grad. An existing gradient stays where it is until then.
void set_grad_slot(const Tensor& leaf, const Tensor& slot);

}  // namespace rondo
