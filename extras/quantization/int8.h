#pragma once
// Int8Linear, Int8Conv2d: layers for inference that multiply bytes. quantize_dynamic and convert
// (prepare.h) make them from trained ones.
//
// Weights are i8 with a scale for each output channel. An input is brought to u8 on the way in, by
// the range that calibration found (static), or each row by its own (dynamic); products are summed
// exactly, in i32, and the sums come out as f32. So whatever lies between such layers (residual
// additions, pooling) stays f32, and any model can have some of its layers replaced.

#include <cstdint>
#include <optional>

#include "extras/quantization/int8_kernels.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::nn {

/// What both share. Buffers weight_int8 (i8), weight_scale (f32, out), bias (f32, out; may be
/// undefined), and, if static, input_scale (f32, 0-dim) and input_zero_point (i64, 0-dim). The
/// forward runs on the CPU only (DeviceError), takes any float and returns f32, and has no
/// gradient: an input on the tape is an AutogradError. Where the input's range is fixed, what lies
/// outside is moved to its ends, as in PyTorch: a NaN to the lower one, so that it is not seen in
/// the output.
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
  /// Rounds the weight. Throws Error where it is not finite, or where an output is the sum of more
  /// products than i32 holds (65,536).
  Int8Layer(const Tensor& weight, const Tensor& bias, const std::optional<Quantization>& input);
  /// Throws what the forward does, of all but the shape; `what` is the layer's type.
  void check(const Tensor& x, const char* what) const;
  /// input_scale and input_zero_point for the bytes of this machine (int8_levels).
  Quantization input() const;
  Int8Weight weight() const { return {weight_int8, weight_scale, prepared_}; }

 private:
  mutable Int8Weight::Prepared prepared_;
};

/// y = x W^T + b as nn::Linear.
struct Int8Linear : Int8Layer, FusesActivation {
  std::int64_t in_features, out_features;

  /// `input`: what the calibration found; nothing: each row of x by its own range.
  explicit Int8Linear(const Linear& linear, const std::optional<Quantization>& input = {});
  Tensor forward(const Tensor& x) override { return run(x, Activation::none); }
  using Module::operator();
  /// The fused form, as Linear's.
  Tensor operator()(const Tensor& x, Activation activation) override;
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return y.numel() * in_features;
  }

 private:
  Tensor run(const Tensor& x, Activation activation);
};

/// y = relu?(x ⋆ w + b) as nn::Conv2d, the result channels_last.
struct Int8Conv2d : Int8Layer {
  std::int64_t in_channels, out_channels;
  Pair kernel_size;
  Conv2dOptions options;
  bool relu;

  Int8Conv2d(const Conv2d& conv, const Quantization& input, bool relu = false);
  Tensor forward(const Tensor& x) override;
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return out_channels == 0 ? 0 : y.numel() * (weight_int8.numel() / out_channels);
  }
};

}  // namespace rondo::nn
