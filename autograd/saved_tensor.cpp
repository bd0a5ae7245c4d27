#include "autograd/saved_tensor.h"

#include "autograd/autograd_meta.h"

namespace rondo {

SavedTensor::SavedTensor(const Tensor& x) : was_defined_(x.defined()) {
  if (!was_defined_) return;
  // Saves an alias, not the tensor itself: if the tensor is later written in place, its grad_fn may
  // become the node that saves it, which would be a cycle. That cannot happen to a leaf.
  const bool is_leaf = x.impl().autograd && x.impl().autograd->requires_grad;
  save(is_leaf ? x : x.alias());
  if (entry_ || !is_leaf) edge_ = gradient_edge(x);
}

SavedTensor::SavedTensor(const Tensor& y, OutputTag, int index)
    : was_defined_(true), is_output_(true), index_(index) {
  save(y.alias());
}

void SavedTensor::save(const Tensor& x) {
  entry_ = CheckpointEntry::save(x);
  if (entry_) return;
  tensor_ = x;
  version_ = x.version();
}

Tensor SavedTensor::elements(const char* owner) const {
  if (!was_defined_) return {};
  require<AutogradError>(
      tensor_.defined() || entry_, "backward of ", owner,
      ": its saved tensors were freed by an earlier backward; pass retain_graph");
  const CheckpointEntry::Kept kept =
      entry_ ? entry_.restore() : CheckpointEntry::Kept{tensor_, version_};
  require<AutogradError>(kept.tensor.version() == kept.version, "backward of ", owner,
                         ": a saved tensor of shape ", kept.tensor.shape(),
                         " was modified in place (it is at version ", kept.tensor.version(),
                         ", version ", kept.version, " was saved)");
  return kept.tensor;
}

Tensor SavedTensor::get(Node& owner) const {
  const Tensor x = elements(owner.name());
  const Edge place = is_output_ ? Edge{owner.shared_from_this(), index_} : edge_;
  if (!place.node) return x;
  Tensor y = x.alias();
  AutogradMeta& meta = autograd_meta(y);
  meta.grad_fn = place.node;
  meta.output = place.output;
  return y;
}

}  // namespace rondo
