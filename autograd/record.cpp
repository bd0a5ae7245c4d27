#include "autograd/record.h"

#include <algorithm>

#include "autograd/accumulate_grad.h"
#include "autograd/trace.h"

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

void link(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs) {
    if (x.defined() && x.impl().autograd && x.impl().autograd->of_recorded) {
      require<AutogradError>(x.impl().autograd->view_version == x.version(), node->name(),
                             ": an input of shape ", x.shape(),
                             " is a view of a tensor that was modified in place after the view was "
                             "taken; take the view again");
    }
    node->edges.push_back(gradient_edge(x));
    if (leaf_watch != nullptr && is_unshown_leaf(x))
      leaf_watch(*node, static_cast<AccumulateGrad&>(*node->edges.back().node));
  }
}

/// The inputs that `link` found nothing behind.
std::shared_ptr<const TracedInputs> inputs_off_the_tape(const Node& node,
                                                        std::span<const Tensor> inputs) {
  auto traced = std::make_shared<TracedInputs>();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_constant = inputs[i].defined() && !node.edges[i].node;
    traced->constants.push_back(is_constant ? inputs[i].alias() : Tensor());
    traced->versions.push_back(is_constant ? inputs[i].version() : 0);
  }
  return traced;
}

void place_under(const std::shared_ptr<Node>& node, const Tensor& y, std::size_t index) {
  node->outputs.push_back({y.shape(), y.dtype(), y.device()});
  if (!is_floating(y.dtype())) return;  // indices and the like end the tape
  AutogradMeta& meta = autograd_meta(y);
  meta.grad_fn = node;
  meta.output = static_cast<int>(index);
  meta.requires_grad = false;
}

}  // namespace

void attach(const std::shared_ptr<Node>& node, std::span<const Tensor> inputs,
            std::span<const Tensor> outputs) {
  link(node, inputs);  // first: an in-place op's output is also its input
  if (TraceMode::is_enabled()) node->traced = inputs_off_the_tape(*node, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) place_under(node, outputs[i], i);
}

void attach_view(const std::shared_ptr<Node>& node, const Tensor& base, const Tensor& view) {
  attach_views(node, base, {&view, 1});
}

void attach_views(const std::shared_ptr<Node>& node, const Tensor& base,
                  std::span<const Tensor> views) {
  attach(node, {&base, 1}, views);
  for (const Tensor& view : views) {
    if (!is_floating(view.dtype())) return;
    AutogradMeta& meta = autograd_meta(view);
    meta.of_recorded = true;
    meta.view_version = view.version();
  }
}

void check_in_place(const Tensor& x, const char* op, const Tensor& source) {
  if (!GradMode::is_enabled()) return;
  require<AutogradError>(
      !(x.is_leaf() && x.requires_grad()), op,
      ": a leaf that requires a gradient is being modified in place; do it under "
      "NoGradGuard");
  require<AutogradError>(!x.impl().autograd || !x.impl().autograd->of_recorded, op,
                         ": the tensor is a view of one on the tape; modify a clone, or the base");
  require<AutogradError>(
      !x.impl().is_view || x.storage().use_count() == 1 || !any_requires_grad({&source, 1}), op,
      ": an operand that requires a gradient is written into a view of shape ", x.shape(),
      ", and the base would not know; write through the base, or join the parts with cat or stack");
}

}  // namespace rondo
