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
/// The same for several views with one node behind them.
void attach_views(const std::shared_ptr<Node>& node, const Tensor& base,
                  std::span<const Tensor> views);

/// Note [Writing through views]
/// The tape knows tensors, not memory: an in-place op puts itself behind the tensor it is called
/// on, and the other tensors that show the same elements keep their old place. PyTorch gives base
/// and views new places; here a write that would need that is an error: into a view of a recorded
/// tensor, and of a recorded operand into any view whose base is still held. Write to the base, or
/// join what was computed with cat or stack. Writes that are not recorded may go through any view.

/// What an in-place op on x asks first, `source` being its other operand, if any. Throws
/// AutogradError for a leaf that requires a gradient and for what the note above forbids.
void check_in_place(const Tensor& x, const char* op, const Tensor& source = {});

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
  view.impl().is_view = true;
  if (any_requires_grad({&base, 1}))
    attach_view(std::make_shared<N>(std::forward<Args>(args)...), base, view);
  return view;
}
/// The same for an op whose outputs all share its input's memory.
template <class N, class... Args>
Tensors record_views(const Tensor& base, const Tensors& views, Args&&... args) {
  for (const Tensor& view : views) view.impl().is_view = true;
  if (any_requires_grad({&base, 1}))
    attach_views(std::make_shared<N>(std::forward<Args>(args)...), base, views);
  return views;
}

/// f() with recording off.
template <class F>
auto no_grad(F&& f) {
  NoGradGuard guard;
  return f();
}

}  // namespace rondo
