#pragma once
// AsyncCopy: a tensor's values on their way to the host, while both sides go on.
//
//   AsyncCopy loss(batch_loss);          // the copy is the current stream's next work
//   …
//   if (loss.is_ready()) print(loss.get().item());
//
// item() and to(Device::cpu()) wait for the GPU to have done everything before; a training step
// must not. A tensor of the CPU is ready at once.

#include <memory>

#include "tensor/tensor.h"

namespace rondo {

class AsyncCopy {
 public:
  /// What x holds when the current stream of its device gets here.
  explicit AsyncCopy(const Tensor& x);

  /// Whether get() would not wait.
  bool is_ready() const;
  /// The values, dense on the CPU; of a GPU's, in pinned memory. Copied to a GPU they are read
  /// when its stream gets there: write to them after that only.
  Tensor get() const;

 private:
  class Arrival;
  Tensor host_;
  std::shared_ptr<Arrival> arrival_;  // null: ready
};

}  // namespace rondo
