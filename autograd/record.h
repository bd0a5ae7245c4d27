#pragma once
// record: how an op puts itself on the tape.

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "autograd/saved_tensor.h"
#include "autograd/variable.h"

namespace rondo {

/// Whether any of the inputs is on the tape and recording is on.
bool any_requires_grad(std::span<const Tensor> inputs);
/// Links `node` under `outputs` and above `inputs`.
void attach(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
            std::span<const Tensor> outputs);
/// The same for a view: remembers the version at which it was taken.
void attach_view(const std::shared_ptr<Node>& node, const Tensor& base, const Tensor& view);

/// What an in-place op asks first: throws AutogradError for a leaf that requires a gradient and for
/// a view of a recorded tensor.
void check_in_place(const Tensor& x, const char* op);

/// Returns y; when an input requires a gradient and recording is on, with a new N(args...) behind
/// it.
template <class N, class... Args>
Tensor record(std::initializer_list<Tensor> inputs, const Tensor& y, Args&&... args) {
  std::span<const Tensor> in(inputs.begin(), inputs.size());
  if (any_requires_grad(in)) attach(std::make_shared<N>(std::forward<Args>(args)...), in, {&y, 1});
  return y;
}
/// The same for any number of inputs and outputs.
template <class N, class... Args>
Tensors record_all(const Tensors& inputs, const Tensors& outputs, Args&&... args) {
  if (any_requires_grad(inputs))
    attach(std::make_shared<N>(std::forward<Args>(args)...), inputs, outputs);
  return outputs;
}
/// The same for an op whose output shares its input's memory.
template <class N, class... Args>
Tensor record_view(const Tensor& base, const Tensor& view, Args&&... args) {
  if (any_requires_grad({&base, 1}))
    attach_view(std::make_shared<N>(std::forward<Args>(args)...), base, view);
  return view;
}

/// f() with recording off.
template <class F>
auto no_grad(F&& f) {
  NoGradGuard guard;
  return f();
}

}  // namespace rondo
