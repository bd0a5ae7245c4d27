#pragma once
// Copies between layouts, in tiles that are whole cache lines on both sides.

#include "tensor/tensor.h"

namespace rondo::cpu {

/// y = x and true, where the two run through memory along different dimensions (a transposed
/// matrix, contiguous to channels_last and back); false, and nothing done, where they do not or
/// do so for a few elements only, or where their dtypes differ. requires: equal shapes.
bool copy_transposed(const Tensor& x, const Tensor& y);

}  // namespace rondo::cpu
