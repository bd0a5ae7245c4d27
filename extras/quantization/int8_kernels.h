#pragma once
// The kernels of int8 inference. They run only on the CPU; other devices throw DeviceError.
//
// Activations are u8, x = scale (q - zero_point); weights are i8. Sums of products are exact, in
// i32, which limits their length: 255 · 128 · length < 2^31.

#include <cstdint>
#include <memory>
#include <mutex>

#include "tensor/backend.h"

namespace rondo {

/// How numbers are stored as bytes: x = scale (q - zero_point).
struct Quantization {
  double scale = 1;
  std::int64_t zero_point = 0;
};

/// Weights as bytes, w = scale[n] values[n]: each output channel has its own scale. The
/// zero point is 0.
struct Int8Weight {
  /// The weights in the layout of a backend's kernels; recomputed when the weights change. A copy
  /// starts empty.
  struct Prepared {
    Prepared() = default;
    Prepared(const Prepared&) {}
    Prepared& operator=(const Prepared&) { return *this; }
    std::mutex mutex;  // several threads may run one model
    std::shared_ptr<void> made;
  };

  const Tensor& values;  // i8 (N, …)
  const Tensor& scale;   // f32 (N)
  Prepared& prepared;
};

inline constexpr std::int64_t int8_most_products = 65536;

/// The largest q of an activation: 255, or 127 for processors whose instruction adds two products
/// in 16 bits.
int int8_levels();
/// y = min(max(round(x / scale) + zero_point, 0), levels); halves round to even; NaN gives 0.
/// requires: x f32, y u8, both contiguous in the same memory format.
void quantize(const Tensor& x, const Quantization& quantization, const Tensor& y);
/// Like quantize, with a range for each row, extended to contain 0: scale = (max - min) / levels,
/// zero_point = round(-min / scale); scale is 1 for a row of zeros, and NaN for a row that is not
/// finite. requires: x f32 (M, K), y u8 (M, K), scales f32 (M), zero_points i32 (M), contiguous.
void quantize_rows(const Tensor& x, const Tensor& y, const Tensor& scales,
                   const Tensor& zero_points);
/// y[m][n] = activation(scales[m] w.scale[n] Σ_k (x[m][k] - zero_points[m]) w.values[n][k] +
/// bias[n]). requires: as above; w (N, K), bias f32 (N) or undefined, y f32 (M, N), contiguous.
void int8_linear(const Tensor& x, const Tensor& scales, const Tensor& zero_points,
                 const Int8Weight& w, const Tensor& bias, const Tensor& y, Activation activation);
/// y = relu?(x ⋆ w + bias). requires: x u8 (N, C, H, W) and y f32 (N, K, P, Q), contiguous in
/// channels_last; w (K, C / groups, R, S), bias f32 (K) or undefined.
void int8_conv2d(const Tensor& x, const Quantization& quantization, const Int8Weight& w,
                 const Tensor& bias, bool relu, const Tensor& y, const Conv2dParams& params);

}  // namespace rondo
