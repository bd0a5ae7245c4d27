#pragma once
// Clipping gradients, between backward and step. As torch.nn.utils.clip_grad_norm_ and _value_.
// Nothing here waits for the device unless error_if_nonfinite asks for it.

#include <limits>

#include "tensor/tensor.h"

namespace rondo::optim {

inline constexpr double inf_norm = std::numeric_limits<double>::infinity();

struct ClipOptions {
  double norm_type = 2;  // 1, 2 or inf_norm
  bool error_if_nonfinite = false;
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm being that of all gradients seen
/// as one vector, and returns the norm before scaling: a 0-dim f32 tensor, f64 if any gradient is.
/// Parameters without a gradient count as zeros. Throws Error for an unknown norm type, a negative
/// max_norm, and for a norm that is infinite or NaN when error_if_nonfinite is set.
Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, ClipOptions options = {});

/// Clamps every element of every gradient to [-clip_value, clip_value]. Throws Error for a negative
/// clip_value.
void clip_grad_value_(const Tensors& parameters, double clip_value);

}  // namespace rondo::optim
