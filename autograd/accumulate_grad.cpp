#include "autograd/accumulate_grad.h"

#include <limits>
#include <unordered_map>
#include <utility>

#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "tensor/backend.h"

namespace rondo {
namespace {

/// Whether dy may become .grad itself: nothing else holds dy's elements, and they have the leaf's
/// layout.
bool may_take(const Tensor& dy, const Tensor& leaf) {
  return dy.impl_ptr().use_count() == 1 && dy.storage().use_count() == 1 &&
         dy.strides() == leaf.strides() && dy.dtype() == leaf.dtype();
}

/// Stores the first gradient since zero_grad.
void set_first(AutogradMeta& meta, const Tensor& leaf, const Tensor& dy) {
  if (meta.grad_slot.defined()) {
    backend(dy).copy(dy, meta.grad_slot);
    meta.grad_slot.bump_version();
    meta.grad = meta.grad_slot;
  } else if (may_take(dy, leaf)) {
    meta.grad = dy;
  } else {
    meta.grad = Tensor::empty_like(leaf);
    backend(dy).copy(dy, meta.grad);
  }
}

thread_local std::unordered_map<const TensorImpl*, UnshownLeaf> unshown;

void note_unshown(const AccumulateGrad& node) {
  const UnshownLeaf now{node.leaf.impl_ptr(), node.unshown_in, node.is_own};
  const auto [entry, is_new] = unshown.try_emplace(&node.leaf.impl(), now);
  // The entry may belong to another tensor that was at the same address.
  if (!is_new && (!node.is_own || entry->second.leaf.expired())) entry->second = now;
}

}  // namespace

thread_local constinit LeafWatch leaf_watch = nullptr;

std::vector<UnshownLeaf> take_unshown_leaves() {
  std::vector<UnshownLeaf> all;
  for (auto& [address, leaf] : std::exchange(unshown, {})) all.push_back(std::move(leaf));
  return all;
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf(leaf) {
  // The highest number runs before all other ready nodes: so a complete gradient can be sent to the
  // other ranks while the rest of backward computes.
  sequence = std::numeric_limits<std::uint64_t>::max();
  outputs = {{leaf.shape(), leaf.dtype(), leaf.device()}};
}

Tensors AccumulateGrad::backward(const Tensors& gradients) {
  AutogradMeta& meta = autograd_meta(leaf);
  const Tensor& dy = gradients[0];
  if (GradMode::is_enabled()) {  // create_graph: .grad is itself on the tape, outside any bucket
    // A copy, because later gradients are added in place, and other tensors may share dy.
    meta.grad = meta.grad_defined ? add(meta.grad, dy) : clone(dy);
  } else if (!meta.grad_defined) {
    set_first(meta, leaf, dy);
  } else {
    backend(dy).binary(BinaryOp::add, meta.grad, dy, meta.grad);
    meta.grad.bump_version();
  }
  meta.grad_defined = true;
  if (!unshown_in.empty()) note_unshown(*this);
  auto hooks = meta.accumulate_hooks;  // a hook may remove itself
  for (auto& [id, hook] : hooks) hook(leaf);
  return {};
}

}  // namespace rondo
