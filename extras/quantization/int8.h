#pragma once
// Int8Linear, Int8Conv2d: layers for inference that multiply bytes. quantize_dynamic and convert
// (prepare.h) create them from trained layers.
//
// Weights are i8 with a scale for each output channel. The input is converted to u8, either with
// the range that calibration found (static) or with the range of each row (dynamic). Products are
// summed exactly, in i32, and the results are f32. So everything between such layers (residual
// additions, pooling) stays f32, and some layers of any model can be replaced.

#include <cstdint>
#include <optional>

#include "extras/quantization/int8_kernels.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::nn {

/// The common base. Buffers weight_int8 (i8), weight_scale (f32, out), bias (f32, out; may be
/// undefined), and, if static, input_scale (f32, 0-dim) and input_zero_point (i64, 0-dim). Forward
/// runs only on the CPU (DeviceError), takes any floating dtype and returns f32. It has no
/// gradient: an input on the tape is an AutogradError. With a static range, inputs outside the
/// range are clamped, as in PyTorch; NaN becomes the lower end, so it is not visible in the output.
struct Int8Layer : Module {
  Tensor weight_int8, weight_scale, bias;
  Tensor input_scale, input_zero_point;

  void visit(Visitor& v) override {
    v.buffer("weight_int8", weight_int8);
    v.buffer("weight_scale", weight_scale);
    v.buffer("bias", bias);
    v.buffer("input_scale", input_scale);
    v.buffer("input_zero_point", input_zero_point);
  }
  DType stored_dtype(DType) const override { return f32; }
  bool is_dynamic() const { return !input_scale.defined(); }

 protected:
  /// Rounds the weight. Throws Error if the weight is not finite, or if an output is the sum of
  /// more products than i32 can hold (65,536).
  Int8Layer(const Tensor& weight, const Tensor& bias, const std::optional<Quantization>& input);
  /// Throws the errors of forward, except for the shape; `what` is the layer's type.
  void check(const Tensor& x, const char* what) const;
  /// input_scale and input_zero_point for the byte range of this machine (int8_levels).
  Quantization input() const;
  Int8Weight weight() const { return {weight_int8, weight_scale, prepared_}; }

 private:
  mutable Int8Weight::Prepared prepared_;
};

/// y = x W^T + b, as nn::Linear.
struct Int8Linear : Int8Layer, FusesActivation {
  std::int64_t in_features, out_features;

  /// `input`: the range from calibration; nullopt: each row of x uses its own range.
  explicit Int8Linear(const Linear& linear, const std::optional<Quantization>& input = {});
  Tensor forward(const Tensor& x) override { return run(x, Activation::none); }
  using Module::operator();
  /// The fused form, as in Linear.
  Tensor operator()(const Tensor& x, Activation activation) override;
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return y.numel() * in_features;
  }

 private:
  Tensor run(const Tensor& x, Activation activation);
};

/// y = relu?(x ⋆ w + b), as nn::Conv2d; the result is channels_last.
struct Int8Conv2d : Int8Layer {
  std::int64_t in_channels, out_channels;
  Pair kernel_size;
  Conv2dOptions options;
  Dims outer_padding;
  bool relu;

  Int8Conv2d(const Conv2d& conv, const Quantization& input, bool relu = false);
  Tensor forward(const Tensor& x) override;
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return out_channels == 0 ? 0 : y.numel() * (weight_int8.numel() / out_channels);
  }
};

}  // namespace rondo::nn
