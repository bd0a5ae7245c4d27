#pragma once
// Numbers as they will be once they have been stored in bytes, for training with that error in it.
//
// Rounding is flat almost everywhere: its gradient would be 0. The straight-through estimator
// (Bengio et al. 2013) takes it for the identity instead, and for 0 where the range cuts off.

#include "tensor/tensor.h"

namespace rondo {

/// scale (min(max(round(x / scale) + zero_point, quant_min), quant_max) - zero_point), halves to
/// even; NaN stays. dx = dy where nothing is cut off. x of any float. Throws Error unless scale is
/// positive and finite and quant_min <= zero_point <= quant_max. Agrees with PyTorch's function of
/// that name.
Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, std::int64_t zero_point,
                                       std::int64_t quant_min, std::int64_t quant_max);
/// The same without zero points, with a scale (C, f32) for each slice along dimension 0. No
/// gradient goes to the scales.
Tensor fake_quantize_per_channel_symmetric(const Tensor& x, const Tensor& scale,
                                           std::int64_t quant_min, std::int64_t quant_max);

}  // namespace rondo
