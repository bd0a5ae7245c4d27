#pragma once
// Gradient clipping, between backward and step. As torch.nn.utils.clip_grad_norm_ and _value_.
// Nothing here waits for the device, unless error_if_nonfinite is set.

#include <limits>

#include "tensor/tensor.h"

namespace rondo::optim {

inline constexpr double inf_norm = std::numeric_limits<double>::infinity();

struct ClipOptions {
  double norm_type = 2;  // 1, 2 or inf_norm
  bool error_if_nonfinite = false;
};

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the norm of all
/// gradients together, as one vector. Returns the norm before scaling: a 0-dim f32 tensor, or f64
/// if any gradient is f64. Parameters without a gradient count as zeros. Throws Error for an
/// unknown norm type, for a negative max_norm, and, with error_if_nonfinite, for a norm that is
/// infinite or NaN.
Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, ClipOptions options = {});

/// Clamps every element of every gradient to [-clip_value, clip_value]. Throws Error for a negative
/// clip_value.
void clip_grad_value_(const Tensors& parameters, double clip_value);

}  // namespace rondo::optim
