#pragma once
// Conv1d: a learned filter slid along a sequence. The arithmetic is in autograd/ops/conv.h.

#include "autograd/ops/conv.h"
#include "autograd/ops/pad.h"
#include "nn/module.h"

namespace rondo::nn {

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  // what the padding holds; constant: zeros
  bool same_padding = false;  // PyTorch's padding="same": y is as large as x; needs stride 1
};

/// x (N, in_channels, L) to y (N, out_channels, Q). weight (out, in / groups, kernel), bias (out),
/// both drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Throws ShapeError if groups does not divide
/// the channels, and for inputs of other shapes. Agrees with torch.nn.Conv1d.
struct Conv1d : Module {
  std::int64_t in_channels, out_channels, kernel_size;
  Conv1dOptions options;
  Dims outer_padding;  // what `pad` adds first, because the convolution cannot (nn/conv_padding.h)
  Tensor weight, bias;

  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return y.numel() * (weight.numel() / out_channels);
  }
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

}  // namespace rondo::nn
