#pragma once
// FakeQuantize: observes the range of the numbers that pass and, if enabled, rounds them as bytes
// would (torch.ao.quantization.FakeQuantize). One is placed before each layer that will be
// quantised (prepare.h); the observed range becomes the input scale of the layer.

#include "extras/quantization/int8_kernels.h"
#include "nn/module.h"

namespace rondo::nn {

struct ObserverOptions {
  enum class Range {
    min_max,         // of all numbers so far
    moving_average,  // average over the calls: old = old + averaging_constant (new - old)
  };
  Range range = Range::moving_average;
  double averaging_constant = 0.01;
};

/// Maps the range from `least` to `most`, extended to contain 0, to bytes 0 … levels: scale = (most
/// - least) / levels, at least 2^-23; zero_point = -round(least / scale). Throws Error for a range
/// that is empty (nothing was observed) or not finite. PyTorch's quint8, per_tensor_affine.
Quantization affine_quantization(double least, double most, int levels = 255);

/// max |w| / 127 of each w[n], at least 2^-23: values round(w / scale) from -127 to 127. f32 (N).
/// Throws Error if an element is not finite. PyTorch's qint8, per_channel_symmetric, with quant_min
/// -127; with its default of -128 the largest weight would be half-way between two bytes.
Tensor symmetric_scales(const Tensor& w);

/// y = x, or x rounded with the range observed so far; the gradient passes straight through
/// (extras/quantization/quantize.h). If fake_quant is off, it always observes x; if it is on, it
/// observes x only in training mode, so evaluation does not change the range. Buffers min_val,
/// max_val (0-dim, f32; initially inf and -inf).
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
