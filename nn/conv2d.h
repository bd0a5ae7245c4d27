#pragma once
// Conv2d: a learned filter slid over an image. The arithmetic is in autograd/ops/conv.h.

#include "autograd/ops/conv.h"
#include "autograd/ops/pad.h"
#include "nn/module.h"

namespace rondo::nn {

/// A number, or {height, width}.
using Pair = rondo::Conv2dOptions::Pair;

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  // what the padding holds; constant: zeros
  bool same_padding = false;  // PyTorch's padding="same": y is as large as x; needs stride 1
};

/// x (N, in_channels, H, W) to y (N, out_channels, P, Q). weight (out, in / groups, kernel), bias
/// (out), both drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Throws ShapeError if groups does not
/// divide the channels. Agrees with torch.nn.Conv2d.
///
///   nn::Conv2d conv(3, 16, 3, {.stride = 2, .padding = 1, .bias = false});
struct Conv2d : Module {
  std::int64_t in_channels, out_channels;
  Pair kernel_size;
  Conv2dOptions options;
  Dims outer_padding;  // what `pad` adds first, because the convolution cannot (nn/conv_padding.h)
  Tensor weight, bias;

  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
         Conv2dOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  /// x with outer_padding.
  Tensor padded(const Tensor& x) const {
    return outer_padding.empty() ? x : pad(x, outer_padding, options.padding_mode);
  }
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return out_channels == 0 ? 0 : y.numel() * (weight.numel() / out_channels);
  }
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

}  // namespace rondo::nn
