#include "nn/shown.h"

#include <optional>
#include <string>
#include <unordered_set>

#include "autograd/accumulate_grad.h"
#include "autograd/checkpoint.h"
#include "autograd/grad_mode.h"
#include "tensor/error.h"

namespace rondo::nn::detail {
namespace {

thread_local bool part_ran_outermost = false;  // since the last step

/// The tensors that a module shows. Unlike a walk, it marks nothing as shown.
struct Shows final : Visitor {
  explicit Shows(Module& module) { child("", module); }
  void parameter(std::string_view, Tensor& x) override { add(x); }
  void buffer(std::string_view, Tensor& x) override {
    add(x);
    if (x.defined()) buffers.insert(&x.impl());
  }
  void child(std::string_view, Module& module) override {
    if (modules_.insert(&module.self()).second) module.self().visit(*this);
  }
  std::unordered_set<const TensorImpl*> tensors, buffers;

 private:
  void add(const Tensor& x) {
    if (x.defined()) tensors.insert(&x.impl());
  }

  std::unordered_set<const Module*> modules_;
};

thread_local std::optional<Shows> shown_by_outermost;  // made on demand

void watch(const Node& op, AccumulateGrad& node) {
  const Running& outermost = *Running::outermost();
  if (outermost.is_input(node.leaf)) return;
  // Of several uses, keep one by a module that does not show the leaf: it is the stronger evidence.
  if (!node.unshown_in.empty() && !node.is_own) return;
  const std::string outer = type_name(outermost.module());
  const std::string inner = type_name(Running::innermost());
  if (!shown_by_outermost) shown_by_outermost.emplace(outermost.module());
  if (shown_by_outermost->buffers.contains(&node.leaf.impl())) return;
  node.is_own = shown_by_outermost->tensors.contains(&node.leaf.impl());
  node.unshown_in = concat(op.name(), " in the forward of ", inner,
                           outer == inner ? "" : concat(", which ", outer, " runs"));
}

}  // namespace

void show_parameter(const Tensor& tensor) {
  AutogradMeta& meta = autograd_meta(tensor);
  if (!meta.is_decided && !meta.grad_fn && is_floating(tensor.dtype())) tensor.requires_grad_();
  if (!meta.is_shown) meta.is_shown = true;
}

void show_buffer(const Tensor& tensor) {
  const auto& meta = tensor.impl().autograd;
  if (meta != nullptr && !meta->is_shown) meta->is_shown = true;
}

void watch_leaves(bool is_part) {
  leaf_watch = watch;
  shown_by_outermost.reset();
  // A checkpoint's second run is part of a backward, where parts run without their owner.
  if (is_part && GradMode::is_enabled() && !is_recomputing()) part_ran_outermost = true;
}

void require_all_shown(const char* who) {
  const bool parts_ran = std::exchange(part_ran_outermost, false);
  for (const auto& [weak, used_in, is_own] : take_unshown_leaves()) {
    const std::shared_ptr<TensorImpl> leaf = weak.lock();
    if (leaf == nullptr) continue;
    const AutogradMeta& meta = *leaf->autograd;
    if (meta.is_shown || !meta.grad_defined || (is_own && !parts_ran)) continue;
    const char* advice =
        is_own
            ? ", but no optimizer has it and no walk through a model has reached it, so it is "
              "neither trained nor saved; show its layer in visit (v.child), or call "
              "parameters() again if it came later"
            : ", but no visit shows it, so it is neither trained nor saved; show it or its layer "
              "in visit (v.child, v.parameter, or v.buffer if it is not to be trained)";
    throw Error(concat(who, ": a tensor ", leaf->sizes, " that requires a gradient was used by ",
                       used_in, advice, ", or call requires_grad_(false) on it"));
  }
}

}  // namespace rondo::nn::detail
