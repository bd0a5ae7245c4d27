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

/// The hooks of one module. An empty result keeps the tensors; other results replace them.
struct Hooks {
  using Before = std::function<Tensors(Module&, const Tensors& inputs)>;
  using After = std::function<Tensors(Module&, const Tensors& inputs, const Tensors& outputs)>;
  using Backward =
      std::function<Tensors(Module&, const Tensors& grad_input, const Tensors& grad_output)>;
  /// Hooks may have state of their own, which copies of the module share, as in Python.
  template <class F>
  using List = std::vector<std::pair<std::uint64_t, std::shared_ptr<F>>>;
  List<Before> before;
  List<After> after;
  List<Backward> backward;
  std::uint64_t next_id = 0;
  Module* owner = nullptr;  // whose forward ran last; null after a move of the module
};

/// Owns the hooks of a module; null until it has one. A copy has copies of them.
class OwnedHooks {
 public:
  OwnedHooks() = default;
  OwnedHooks(const OwnedHooks& other)
      : hooks_(other.hooks_ ? std::make_shared<Hooks>(*other.hooks_) : nullptr) {}
  OwnedHooks(OwnedHooks&& other) noexcept : hooks_(std::move(other.hooks_)) {
    if (hooks_ != nullptr) hooks_->owner = nullptr;
  }
  OwnedHooks& operator=(OwnedHooks other) noexcept {
    hooks_ = std::move(other.hooks_);
    return *this;
  }
  ~OwnedHooks() = default;

  const std::shared_ptr<Hooks>& get() const { return hooks_; }
  bool empty() const {
    return hooks_ == nullptr ||
           (hooks_->before.empty() && hooks_->after.empty() && hooks_->backward.empty());
  }

  template <class F>
  HookHandle add(Hooks::List<F> Hooks::*list, F hook) {
    if (hooks_ == nullptr) hooks_ = std::make_shared<Hooks>();
    const std::uint64_t id = hooks_->next_id++;
    (hooks_.get()->*list).emplace_back(id, std::make_shared<F>(std::move(hook)));
    return HookHandle([weak = std::weak_ptr(hooks_), list, id] {
      if (const auto hooks = weak.lock())
        std::erase_if(hooks.get()->*list, [id](const auto& entry) { return entry.first == id; });
    });
  }

 private:
  std::shared_ptr<Hooks> hooks_;
};

/// `hook`, which returns nothing, a tensor or tensors, as a function that returns tensors.
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
  std::shared_ptr<Hooks> hooks_;  // or null
  std::shared_ptr<Backward> backward_;
  Tensors inputs_;
};

}  // namespace detail
}  // namespace rondo::nn
