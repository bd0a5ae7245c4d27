#pragma once
// FakeQuantize: watches the numbers that pass and, when it is told to, rounds them as bytes would
// (torch.ao.quantization.FakeQuantize). One stands before each layer that is going to compute in
// bytes (prepare.h); what it has seen becomes the layer's input scale.

#include "extras/quantization/int8_kernels.h"
#include "nn/module.h"

namespace rondo::nn {

struct ObserverOptions {
  enum class Range {
    min_max,         // of all numbers ever seen
    moving_average,  // of each call's, averaged: old = old + averaging_constant (new - old)
  };
  Range range = Range::moving_average;
  double averaging_constant = 0.01;
};

/// Bytes 0 … levels for numbers from `least` to `most`, a range that is stretched to hold 0: scale
/// = (most - least) / levels, at least 2^-23; zero_point = -round(least / scale). Throws Error for
/// a range that is empty (nothing was seen) or not finite. PyTorch's quint8, per_tensor_affine.
Quantization affine_quantization(double least, double most, int levels = 255);

/// max |w| / 127 of each w[n], at least 2^-23: values round(w / scale) from -127 to 127. f32 (N).
/// Throws Error where one is not finite. PyTorch's qint8, per_channel_symmetric, with
/// quant_min -127: by its default of -128 the largest weight lies half-way between two bytes.
Tensor symmetric_scales(const Tensor& w);

/// y = x, or x rounded by the range seen so far, the gradient going straight through
/// (extras/quantization/quantize.h). It looks at x while it only observes, and afterwards while it
/// trains, so that evaluating a model teaches it nothing. Buffers min_val, max_val (0-dim, f32; inf
/// and -inf at first).
struct FakeQuantize : Module {
  ObserverOptions options;
  Tensor min_val, max_val;
  bool observer_enabled = true, fake_quant_enabled = false;

  explicit FakeQuantize(const ObserverOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override {
    v.buffer("min_val", min_val);
    v.buffer("max_val", max_val);
  }
  DType stored_dtype(DType) const override { return f32; }
  Quantization quantization() const;

 private:
  void observe(const Tensor& x);
};

}  // namespace rondo::nn
