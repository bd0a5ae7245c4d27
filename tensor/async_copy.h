#pragma once
// AsyncCopy: copies a tensor's values to the host while the host and the GPU continue to work.
//
//   AsyncCopy loss(batch_loss);          // the copy is the current stream's next work
//   …
//   if (loss.is_ready()) print(loss.get().item());
//
// item() and to(Device::cpu()) wait until the GPU has finished all earlier work. A training step
// must not wait like that. For a CPU tensor the copy is ready at once.

#include <memory>

#include "tensor/tensor.h"

namespace rondo {

class AsyncCopy {
 public:
  /// Copies the values that x has when the current stream of x's device reaches this copy.
  explicit AsyncCopy(const Tensor& x);

  /// Whether get() would return without waiting.
  bool is_ready() const;
  /// The values, dense on the CPU (in pinned memory if x is on a GPU). If the caller copies this
  /// tensor to a GPU, the copy reads it only when the GPU's stream reaches the copy: do not write
  /// to the tensor before that.
  Tensor get() const;

 private:
  class Arrival;
  Tensor host_;
  std::shared_ptr<Arrival> arrival_;  // null: ready
};

}  // namespace rondo
