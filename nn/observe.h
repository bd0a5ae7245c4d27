#pragma once
// ForwardObserver: is called after every module's forward, for code that needs to know what a model
// does with an input, such as summaries (nn/summary.h). PyTorch: register_module_forward_hook.

#include <functional>

#include "nn/module.h"

namespace rondo::nn {

/// While this object lives, `seen` is called after each forward of a module on this thread, with
/// the tensors of the module's arguments and results; inner modules come first, and a module's
/// hooks (nn/hooks.h) before. If several observers exist, only the newest is called.
class ForwardObserver {
 public:
  using Seen = std::function<void(Module& module, const Tensors& inputs, const Tensors& outputs)>;
  explicit ForwardObserver(Seen seen);
  ~ForwardObserver();
  ForwardObserver(const ForwardObserver&) = delete;
  ForwardObserver& operator=(const ForwardObserver&) = delete;

 private:
  Seen seen_;
  const Seen* before_;
};

namespace detail {
/// Calls the observer, if there is one.
void observe(Module& module, const Tensors& inputs, const Tensors& outputs);
}  // namespace detail

}  // namespace rondo::nn
