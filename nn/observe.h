#pragma once
// ForwardObserver: is called after every module's forward, for code that needs to know what a model
// does with an input, such as summaries (nn/summary.h).

#include <functional>

#include "nn/module.h"

namespace rondo::nn {

/// While this object lives, `seen` is called after each forward of a module on this thread, with
/// the module's input and output; inner modules come first, as with PyTorch's forward hooks. If
/// several observers exist, only the newest is called.
class ForwardObserver {
 public:
  using Seen = std::function<void(Module& module, const Tensor& x, const Tensor& y)>;
  explicit ForwardObserver(Seen seen);
  ~ForwardObserver();
  ForwardObserver(const ForwardObserver&) = delete;
  ForwardObserver& operator=(const ForwardObserver&) = delete;

 private:
  Seen seen_;
  const Seen* before_;
};

namespace detail {
/// Returns y after calling the observer, if there is one.
Tensor observed(Module& module, const Tensor& x, Tensor y);
}  // namespace detail

}  // namespace rondo::nn
