#pragma once
// Copies between layouts, in tiles that are whole cache lines in source and destination.

#include "tensor/tensor.h"

namespace rondo::cpu {

/// Sets y = x and returns true if x and y are contiguous along different dimensions (a transposed
/// matrix, or contiguous to channels_last and back). Otherwise, or if only a few elements are
/// affected, or if the dtypes differ, does nothing and returns false. requires: equal shapes.
bool copy_transposed(const Tensor& x, const Tensor& y);

}  // namespace rondo::cpu
