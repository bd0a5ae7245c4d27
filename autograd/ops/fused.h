#pragma once
// For ops whose kernel does the next op's work as well. Private to autograd/ops.

#include "tensor/tensor.h"

namespace rondo {

/// y, which a kernel has made relu(…) already, with relu's node behind it. The result shares y's
/// memory, so nobody else may hold y.
Tensor behind_relu(const Tensor& y);

}  // namespace rondo
