#pragma once
// Gradient clipping, between backward and step. As torch.nn.utils.clip_grad_norm_, _value_ and
// get_total_norm.
// Nothing here waits for the device, unless error_if_nonfinite is set.

#include <limits>

#include "tensor/tensor.h"

namespace rondo::optim {

inline constexpr double inf_norm = std::numeric_limits<double>::infinity();

struct ClipOptions {
  double norm_type = 2;  // above 0; inf_norm: the largest element
  bool error_if_nonfinite = false;
};

/// The norm of all tensors together, as one vector: a 0-dim f32 tensor, or f64 if any of them is
/// f64. Throws Error for a norm type that is not positive and, with error_if_nonfinite, for a norm
/// that is infinite or NaN; DeviceError if they are on several devices.
Tensor get_total_norm(const Tensors& tensors, ClipOptions options = {});

/// Scales all gradients by min(1, max_norm / (total_norm + 1e-6)). Throws Error for a negative
/// max_norm.
void clip_grads_with_norm_(const Tensors& parameters, double max_norm, const Tensor& total_norm);

/// Both: scales the gradients so that their norm is at most max_norm, and returns the norm before
/// scaling. Parameters without a gradient count as zeros. Throws as the two functions do.
Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, ClipOptions options = {});

/// Clamps every element of every gradient to [-clip_value, clip_value]. Throws Error for a negative
/// clip_value.
void clip_grad_value_(const Tensors& parameters, double clip_value);

}  // namespace rondo::optim
