#include "autograd/record.h"

#include <algorithm>

#include "autograd/accumulate_grad.h"
#include "autograd/trace.h"
#include "autograd/views.h"
#include "tensor/backend.h"

namespace rondo {

bool any_requires_grad(std::span<const Tensor> inputs) {
  return GradMode::is_enabled() && std::ranges::any_of(inputs, [](const Tensor& x) {
           return x.defined() && x.requires_grad();
         });
}

namespace {

bool is_unshown_leaf(const Tensor& x) {
  if (!x.defined() || !x.impl().autograd) return false;
  const AutogradMeta& meta = *x.impl().autograd;
  return meta.requires_grad && !meta.is_shown && !meta.grad_fn;
}

/// The inputs for which the node has no edge, and the versions of its outputs.
std::shared_ptr<const TracedInputs> traced_by(const Node& node, std::span<const Tensor> inputs,
                                              std::span<const Tensor> outputs) {
  auto traced = std::make_shared<TracedInputs>();
  for (const Tensor& y : outputs) {
    const bool is_overwritten = !inputs.empty() && y.is_same(inputs[0]);  // its version will grow
    traced->output_versions.push_back(y.version() + (is_overwritten ? 1 : 0));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_constant = inputs[i].defined() && !node.edges[i].node;
    traced->constants.push_back(is_constant ? inputs[i].alias() : Tensor());
    traced->versions.push_back(is_constant ? inputs[i].version() : 0);
  }
  return traced;
}

void link(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
          std::span<const Tensor> outputs) {
  for (const Tensor& x : inputs) {
    if (TraceMode::is_enabled()) require_traced(x);
    node->edges.push_back(gradient_edge(x));
    if (leaf_watch != nullptr && is_unshown_leaf(x))
      leaf_watch(*node, static_cast<AccumulateGrad&>(*node->edges.back().node));
  }
  if (TraceMode::is_enabled()) node->traced = traced_by(*node, inputs, outputs);
}

void place_under(const std::shared_ptr<Node>& node, const Tensor& y, std::size_t index) {
  node->outputs.push_back({y.shape(), y.dtype(), y.device()});
  if (!is_floating(y.dtype())) return;  // the tape ends at non-floating tensors such as indices
  set_grad_fn(y, node, static_cast<int>(index));
}

}  // namespace

void attach(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
            std::span<const Tensor> outputs) {
  link(node, inputs, outputs);  // first: an in-place op's output is also its input
  for (std::size_t i = 0; i < outputs.size(); ++i) place_under(node, outputs[i], i);
}

void attach_in_place(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
                     const Tensor& x) {
  if (!x.impl().base) return attach(node, inputs, {&x, 1});
  link(node, inputs, {});
  lift_retain_hook(x);  // x gets its next place when it is used
  attach_write(node, x);
}

Tensor as_output(std::span<const Tensor> inputs, const Tensor& y) {
  for (const Tensor& x : inputs) {
    // Tensors of the same memory share the counter of its version.
    if (!x.defined() || x.impl().version != y.impl().version) continue;
    const Tensor copy = Tensor::empty_like(y);
    backend(y).copy(y, copy);
    return copy;
  }
  forget_base(y);
  return y;
}

void require_distinct_elements(const Tensor& x, const char* op) {
  require(x.numel() == 0 || !repeats_elements(x.shape(), x.strides()), op,
          ": several elements of the tensor, of shape ", x.shape(), " and strides ", x.strides(),
          ", share one address; clone it first");
}

void check_in_place(const Tensor& x, const char* op, const Tensor& source) {
  x.require_defined(op, "the tensor");
  forget_hidden_base(x);
  const Tensor both[] = {x, source};
  const auto hidden_base = x.impl().is_constant_view ? x.impl().constant_base.lock() : nullptr;
  const bool hides_a_write =
      GradMode::is_enabled() && hidden_base != nullptr && is_on_tape(*hidden_base);
  if (!hides_a_write && !any_requires_grad(both)) return;
  require<AutogradError>(
      !(x.is_leaf() && x.requires_grad()), op,
      ": a leaf that requires a gradient is being modified in place; do it under "
      "NoGradGuard");
  require<AutogradError>(!x.impl().is_constant_view, op, ": a view of shape ", x.shape(),
                         " was taken under NoGradGuard, but is modified outside it, so "
                         "gradients would miss the write; take the view outside, too");
  if (const Tensor base(x.impl().base); base.defined()) {
    require<AutogradError>(!(base.is_leaf() && base.requires_grad()), op,
                           ": a view of a leaf that requires a gradient is being modified in "
                           "place; do it under NoGradGuard");
    require<AutogradError>(!TraceMode::is_enabled(), op,
                           ": a write to a view cannot be traced; use where, cat or stack");
    require_base(x);
  }
  for (const Tensor& operand : both) {  // before the op writes memory
    if (operand.defined() && has_old_place(operand)) renew_place(operand);
  }
}

}  // namespace rondo
