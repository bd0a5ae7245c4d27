#pragma once
// For ops whose kernel also does the work of the next op. Private to autograd/ops.

#include "tensor/tensor.h"

namespace rondo {

/// Records relu on y, to which a kernel has already applied relu. The result shares y's memory, so
/// no other tensor may share it.
Tensor behind_relu(const Tensor& y);

}  // namespace rondo
