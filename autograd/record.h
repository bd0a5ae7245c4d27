#pragma once
// record: how an op puts its node on the tape.

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "autograd/saved_tensor.h"
#include "autograd/views.h"

namespace rondo {

/// Whether any of the inputs is on the tape and recording is on.
bool any_requires_grad(std::span<const Tensor> inputs);
/// Makes `node` the grad_fn of `outputs` and connects its edges to `inputs`.
void attach(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
            std::span<const Tensor> outputs);
/// The same for an op that overwrites x, which is inputs[0]. If x is a view, the node goes to its
/// base.
void attach_in_place(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
                     const Tensor& x);

/// Every in-place op on x calls this first; `source` is its other operand, if it has one. Throws
/// AutogradError if the op would be recorded and x is a leaf that requires a gradient, a view of
/// such a leaf, or a view taken under NoGradGuard.
void check_in_place(const Tensor& x, const char* op, const Tensor& source = {});

/// In-place ops that write different values call this, too: throws Error if several elements of x
/// share one address.
void require_distinct_elements(const Tensor& x, const char* op);

/// y as the output of an op with these inputs. If y is in the memory of an input, which has a place
/// on the tape already, a copy.
Tensor as_output(std::span<const Tensor> inputs, const Tensor& y);

/// Returns y. If an input requires a gradient and recording is on, y gets a new N(args...) as its
/// node; an op that returns an input, or a view of one, gets a copy back.
template <class N, class... Args>
Tensor record(std::initializer_list<Tensor> inputs, const Tensor& y, Args&&... args) {
  std::span<const Tensor> in(inputs.begin(), inputs.size());
  if (!any_requires_grad(in)) return y;
  const Tensor output = as_output(in, y);
  attach(std::make_shared<N>(std::forward<Args>(args)...), in, {&output, 1});
  return output;
}
/// The same for any number of inputs and outputs.
template <class N, class... Args>
Tensors record_all(const Tensors& inputs, const Tensors& outputs, Args&&... args) {
  if (!any_requires_grad(inputs)) return outputs;
  Tensors results;
  for (const Tensor& y : outputs) results.push_back(as_output(inputs, y));
  attach(std::make_shared<N>(std::forward<Args>(args)...), inputs, results);
  return results;
}
/// The same for an op that has overwritten x, which is its first input.
template <class N, class... Args>
void record_in_place(std::initializer_list<Tensor> inputs, const Tensor& x, Args&&... args) {
  std::span<const Tensor> in(inputs.begin(), inputs.size());
  if (any_requires_grad(in))
    attach_in_place(std::make_shared<N>(std::forward<Args>(args)...), in, x);
}
/// The same for an op whose outputs are new views of its input.
template <class N, class... Args>
Tensors record_views(const Tensor& base, const Tensors& views, Args&&... args) {
  if (any_requires_grad({&base, 1}))
    attach(std::make_shared<N>(std::forward<Args>(args)...), {&base, 1}, views);
  for (const Tensor& view : views) set_base(view, base);
  return views;
}
template <class N, class... Args>
Tensor record_view(const Tensor& base, const Tensor& view, Args&&... args) {
  return record_views<N>(base, {view}, std::forward<Args>(args)...)[0];
}

/// f() with recording off.
template <class F>
auto no_grad(F&& f) {
  NoGradGuard guard;
  return f();
}

}  // namespace rondo
