#include "autograd/autograd_meta.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "autograd/accumulate_grad.h"
#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/views.h"

namespace rondo {
namespace {

/// The node's name as PyTorch would write it: max_pool2d is MaxPool2dBackward, to(dtype)
/// ToBackward.
std::string class_name(std::string_view op) {
  std::string name;
  bool starts_word = true;
  for (char c : op.substr(0, op.find('('))) {
    if (c != '_') name += starts_word ? static_cast<char>(std::toupper(c)) : c;
    starts_word = c == '_';
  }
  return name + "Backward";
}

std::uint64_t next_hook_id() {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1);
}

std::string describe(const Tensor& x) {
  const auto& meta = x.impl().autograd;
  if (has_old_place(x)) return "grad_fn=<AsStridedBackward>";
  if (!meta) return "";
  if (meta->grad_fn) return "grad_fn=<" + class_name(meta->grad_fn->name()) + ">";
  return meta->requires_grad ? "requires_grad=True" : "";
}

}  // namespace

AutogradMeta& autograd_meta(const Tensor& x) {
  static const bool told = (set_tape_description(describe), true);
  static_cast<void>(told);
  auto& meta = x.impl().autograd;
  if (!meta) meta = std::make_shared<AutogradMeta>();
  return *meta;
}

Edge gradient_edge(const Tensor& x) {
  if (!x.defined()) return {};
  if (has_old_place(x)) renew_place(x);
  if (!x.impl().autograd) return {};
  AutogradMeta& meta = *x.impl().autograd;
  if (meta.grad_fn) return {meta.grad_fn, meta.output};
  if (!meta.requires_grad) return {};
  std::shared_ptr<Node> accumulator = meta.accumulator.lock();
  if (!accumulator) {
    accumulator = std::make_shared<AccumulateGrad>(x);
    meta.accumulator = accumulator;
  }
  return {accumulator, 0};
}

bool Tensor::requires_grad() const {
  const auto& meta = impl("requires_grad").autograd;
  return (meta && (meta->requires_grad || meta->grad_fn)) || has_old_place(*this);
}

const Tensor& Tensor::requires_grad_(bool value) const {
  impl("requires_grad_");
  if (value && !is_leaf()) return *this;  // it has a gradient already
  require<AutogradError>(is_leaf(),
                         "requires_grad_: the tensor is the result of a recorded op; "
                         "use detach() to cut it off");
  require<DTypeError>(!value || is_floating(dtype()),
                      "requires_grad_: only floating-point tensors have gradients, this one is ",
                      dtype());
  AutogradMeta& meta = autograd_meta(*this);
  meta.requires_grad = value;
  meta.is_decided = true;
  if (leaf_watch != nullptr)
    meta.is_shown = true;  // created inside a forward, so not part of the
                           // model
  return *this;
}

bool Tensor::is_leaf() const {
  return (!impl("is_leaf").autograd || !impl().autograd->grad_fn) && !has_old_place(*this);
}

Tensor Tensor::grad() const {
  const auto& meta = impl("grad").autograd;
  return meta && meta->grad_defined ? meta->grad : Tensor();
}

void Tensor::set_grad(const Tensor& grad) const {
  impl("set_grad");
  AutogradMeta& meta = autograd_meta(*this);
  if (grad.defined()) {
    require<ShapeError>(grad.shape() == shape(), "set_grad: gradient ", grad.shape(),
                        " for a tensor of shape ", shape());
    require<DTypeError>(grad.dtype() == dtype(), "set_grad: gradient of ", grad.dtype(),
                        " for a tensor of ", dtype());
  }
  meta.grad = grad;
  meta.grad_defined = grad.defined();
}

void Tensor::zero_grad() const {
  if (!impl("zero_grad").autograd) return;
  impl().autograd->grad_defined = false;
  impl().autograd->grad = {};
}

namespace {

/// Adds the gradients that reach the node of x to x.grad.
void add_retain_hook(const Tensor& x) {
  const AutogradMeta& meta = *x.impl().autograd;
  std::weak_ptr<TensorImpl> self = x.impl_ptr();
  meta.grad_fn->hooks.push_back(
      {.output = meta.output,
       .id = next_hook_id(),
       .run =
           [self](const Tensor& grad) {
             if (auto impl = self.lock()) {
               Tensor kept(impl);
               kept.set_grad(kept.grad().defined() ? add(kept.grad(), grad) : rondo::clone(grad));
             }
             return Tensor();
           },
       .retained_by = &x.impl()});
}

}  // namespace

void Tensor::retain_grad() const {
  impl("retain_grad");
  require<AutogradError>(requires_grad(), "retain_grad: the tensor does not require a gradient");
  if (is_leaf()) return;
  if (has_old_place(*this)) renew_place(*this);
  AutogradMeta& meta = autograd_meta(*this);
  if (std::exchange(meta.retains_grad, true)) return;
  add_retain_hook(*this);
}

void lift_retain_hook(const Tensor& x) {
  const auto& meta = x.impl().autograd;
  if (!meta || !meta->retains_grad || !meta->grad_fn) return;
  std::erase_if(meta->grad_fn->hooks,
                [&](const Node::Hook& hook) { return hook.retained_by == &x.impl(); });
}

void set_grad_fn(const Tensor& x, const std::shared_ptr<Node>& node, int output) {
  lift_retain_hook(x);
  AutogradMeta& meta = autograd_meta(x);
  meta.grad_fn = node;
  meta.output = output;
  meta.requires_grad = false;
  if (meta.retains_grad) add_retain_hook(x);
}

Tensor Tensor::detach() const {
  impl("detach");
  return alias();
}

void Tensor::set_data(const Tensor& other) const {
  TensorImpl& to = impl();
  const TensorImpl& from = other.impl();
  bool changes = !(to.sizes == from.sizes) || to.dtype != from.dtype || device() != other.device();
  to.storage = from.storage;
  to.offset = from.offset;
  to.sizes = from.sizes;
  to.strides = from.strides;
  to.dtype = from.dtype;
  forget_base(*this);
  // A new counter: other views of the old memory do not follow this tensor, and detect the change.
  to.version = std::make_shared<std::atomic<std::uint64_t>>(version());
  bump_version();
  if (changes && to.autograd) {
    zero_grad();
    to.autograd->grad_slot = {};
    to.autograd->accumulator.reset();  // it describes the old shape
  }
}

namespace {

/// Adds a hook to one of a leaf's lists. The handle removes it again, if the leaf still exists.
template <class Hook>
HookHandle add_hook(const Tensor& x,
                    std::vector<std::pair<std::uint64_t, Hook>> AutogradMeta::*list, Hook hook) {
  std::uint64_t id = next_hook_id();
  (autograd_meta(x).*list).emplace_back(id, std::move(hook));
  std::weak_ptr<AutogradMeta> weak = x.impl().autograd;
  return HookHandle([weak, list, id] {
    if (auto meta = weak.lock()) {
      std::erase_if(meta.get()->*list, [id](const auto& entry) { return entry.first == id; });
    }
  });
}

}  // namespace

HookHandle register_hook(const Tensor& x, AutogradMeta::GradHook hook) {
  require<AutogradError>(x.requires_grad(),
                         "register_hook: the tensor does not require a gradient");
  if (has_old_place(x)) renew_place(x);
  AutogradMeta& meta = autograd_meta(x);
  if (!meta.grad_fn) return add_hook(x, &AutogradMeta::leaf_hooks, std::move(hook));
  std::uint64_t id = next_hook_id();
  meta.grad_fn->hooks.push_back({.output = meta.output, .id = id, .run = std::move(hook)});
  std::weak_ptr<Node> weak = meta.grad_fn;
  return HookHandle([weak, id] {
    if (auto node = weak.lock()) {
      std::erase_if(node->hooks, [id](const Node::Hook& entry) { return entry.id == id; });
    }
  });
}

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf,
                                              AutogradMeta::AccumulateHook hook) {
  require<AutogradError>(leaf.is_leaf() && leaf.requires_grad(),
                         "register_post_accumulate_grad_hook: the tensor is not a leaf that "
                         "requires a gradient");
  return add_hook(leaf, &AutogradMeta::accumulate_hooks, std::move(hook));
}

void set_grad_slot(const Tensor& leaf, const Tensor& slot) {
  if (slot.defined()) {
    require<ShapeError>(slot.shape() == leaf.shape(), "set_grad_slot: slot ", slot.shape(),
                        " for a leaf of shape ", leaf.shape());
    require<DTypeError>(slot.dtype() == leaf.dtype() && slot.device() == leaf.device(),
                        "set_grad_slot: slot of ", slot.dtype(), " on ", slot.device(),
                        " for a leaf of ", leaf.dtype(), " on ", leaf.device());
  }
  autograd_meta(leaf).grad_slot = slot;
}

}  // namespace rondo
