#include "autograd/saved_tensor.h"

#include "autograd/variable.h"

namespace rondo {

SavedTensor::SavedTensor(const Tensor& x) : tensor_(x), was_defined_(x.defined()) {
  if (was_defined_) version_ = x.version();
}

SavedTensor::SavedTensor(const Tensor& y, OutputTag, int index)
    : tensor_(y.alias()),
      version_(y.version()),
      was_defined_(true),
      is_output_(true),
      index_(index) {}

Tensor SavedTensor::get(Node& owner) const {
  if (!was_defined_) return {};
  require<AutogradError>(
      tensor_.defined(), "backward of ", owner.name(),
      ": its saved tensors were freed by an earlier backward; pass retain_graph");
  require<AutogradError>(tensor_.version() == version_, "backward of ", owner.name(),
                         ": a saved tensor of shape ", tensor_.shape(),
                         " was modified in place (it is at version ", tensor_.version(),
                         ", version ", version_, " was saved)");
  if (!is_output_) return tensor_;
  Tensor y = tensor_.alias();
  AutogradMeta& meta = autograd_meta(y);
  meta.grad_fn = owner.shared_from_this();
  meta.output = index_;
  return y;
}

}  // namespace rondo
