#pragma once
// Weights in the form in which a kernel reads them, kept from call to call.
//
// Note [Prepared weights]
// Kernels want weights in blocks, in panels, or transformed (winograd.h). In training they change
// with each step and are brought into that form each time, a per-cent or two of the work. In
// inference, above all of a single image, doing so costs more than the convolution itself. So what
// was made of a tensor hangs on its storage, with the version (Note [Versions] in
// autograd/saved_tensor.h) that it was made of, and is found again while that stays. Nothing is
// kept at a version's first use: a step of training would fill memory with what it never reads
// again. Who writes to weights through data_ptr() must call bump_version(), as for the tape's sake.

#include <functional>
#include <memory>

#include "tensor/tensor.h"

namespace rondo::cpu {

/// What tells apart the forms of one weight: a kernel that lives as long as it is known here, or a
/// number.
struct WeightForm {
  std::shared_ptr<const void> kernel;
  std::int64_t number = 0;
  bool operator==(const WeightForm&) const = default;
};

/// `bytes` bytes that make(data) has filled from w, now or earlier.
StoragePtr prepared_weight(const Tensor& w, const WeightForm& form, std::size_t bytes,
                           const std::function<void(void*)>& make);

}  // namespace rondo::cpu
