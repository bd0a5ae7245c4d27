#pragma once
// ForwardObserver: sees every module's forward, for who wants to know what a model does with an
// input: summaries (nn/summary.h), and what a program makes of it.

#include <functional>

#include "nn/module.h"

namespace rondo::nn {

/// While it lives, `seen` is called after each forward of a module on this thread, with its input
/// and output, the innermost modules first. They are called as PyTorch's forward hooks are. The
/// last to be made is the one that sees.
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
/// y, after telling the observer, if there is one.
Tensor observed(Module& module, const Tensor& x, Tensor y);
}  // namespace detail

}  // namespace rondo::nn
