#pragma once
// Numbers rounded as if stored as bytes, to train with the rounding error.
//
// The derivative of rounding is 0 almost everywhere. The straight-through estimator (Bengio et al.
// 2013) uses the gradient of the identity instead, and 0 where the value is clamped.

#include "tensor/tensor.h"

namespace rondo {

/// scale (min(max(round(x / scale) + zero_point, quant_min), quant_max) - zero_point); halves round
/// to even; NaN stays NaN. dx = dy where the value is not clamped, else 0. x of any floating dtype.
/// Throws Error unless scale is positive and finite and quant_min <= zero_point <= quant_max.
/// Agrees with PyTorch's function of the same name.
Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, std::int64_t zero_point,
                                       std::int64_t quant_min, std::int64_t quant_max);
/// The same function with zero_point = 0, and with a scale of its own for each slice along
/// dimension 0: `scale` is (C), f32. The scales get no gradient.
Tensor fake_quantize_per_channel_symmetric(const Tensor& x, const Tensor& scale,
                                           std::int64_t quant_min, std::int64_t quant_max);

}  // namespace rondo
