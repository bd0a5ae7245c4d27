#pragma once
// Hooks: functions that run when a module is called, as in PyTorch. Module::register_forward_hook
// and its siblings put them in place; Module::call runs them.
//
// Note [Hooks]
// Hooks get the tensors of the arguments and results, in order (autograd/each_tensor.h), whatever
// the signature of forward. They run when the module is called (`net(x)`), not when its forward is
// (`net.forward(x)`). A copy of a module, a clone and a replica of DataParallel have copies of its
// hooks; a handle removes the hook of the module where it was registered, also after that module
// was moved.
//
// A full backward hook needs two nodes: one at the results, which keeps their gradients, and one at
// the arguments, which runs after the module's own nodes. Both are copies of the tensors, so that
// an in-place op cannot change a tensor behind the node's back.

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/autograd_meta.h"
#include "tensor/tensor.h"

namespace rondo::nn {

class Module;

namespace detail {

/// An empty result keeps the tensors; other results replace them.
using PreHook = std::function<Tensors(Module&, const Tensors& inputs)>;
/// A backward hook has this type, too; its arguments are grad_input and grad_output.
using Hook = std::function<Tensors(Module&, const Tensors& inputs, const Tensors& outputs)>;

/// Owns the hooks of a module; null until it has one. A copy has copies of them.
class OwnedHooks {
 public:
  struct Lists;

  OwnedHooks() = default;
  OwnedHooks(const OwnedHooks& other);
  OwnedHooks(OwnedHooks&& other) noexcept;
  OwnedHooks& operator=(OwnedHooks other) noexcept;
  ~OwnedHooks() = default;

  const std::shared_ptr<Lists>& get() const { return lists_; }
  bool empty() const { return lists_ == nullptr || are_empty(); }

  HookHandle add_before(PreHook hook);
  HookHandle add_after(Hook hook);
  HookHandle add_backward(Hook hook);

 private:
  bool are_empty() const;

  std::shared_ptr<Lists> lists_;
};

/// Makes a function that returns tensors of a hook that returns nothing, a tensor or tensors.
template <class F, class... Args>
std::function<Tensors(Module&, Args...)> as_hook(F hook) {
  using Result = std::invoke_result_t<F&, Module&, Args...>;
  static_assert(
      std::is_void_v<Result> || std::same_as<Result, Tensor> || std::same_as<Result, Tensors>,
      "a hook returns nothing, or what replaces the tensors: a Tensor or Tensors");
  return [hook = std::move(hook)](Module& module, Args... args) mutable -> Tensors {
    if constexpr (std::is_void_v<Result>) {
      hook(module, args...);
      return {};
    } else if constexpr (std::same_as<Result, Tensor>) {
      const Tensor found = hook(module, args...);
      return found.defined() ? Tensors{found} : Tensors{};
    } else {
      return hook(module, args...);
    }
  };
}

/// One call of a module that has hooks, or while a ForwardObserver lives.
class HookedCall {
 public:
  /// Runs the forward pre-hooks, which may replace the inputs.
  HookedCall(Module& module, const OwnedHooks& hooks, Tensors& inputs);
  /// Runs the forward hooks, which may replace the outputs, and the observer.
  void finish(Tensors& outputs);

 private:
  struct Backward;
  struct AtInputs;
  struct AtOutputs;

  Module& module_;
  std::shared_ptr<OwnedHooks::Lists> hooks_;  // or null
  std::shared_ptr<Backward> backward_;
  Tensors inputs_;
};

}  // namespace detail
}  // namespace rondo::nn
