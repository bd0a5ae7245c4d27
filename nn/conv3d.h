#pragma once
// Conv3d: a learned filter slid through a volume. The arithmetic is in autograd/ops/conv.h.

#include "nn/conv_nd.h"

namespace rondo::nn {

struct Conv3dOptions {
  Triple stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  // what the padding holds; constant: zeros
  bool same_padding = false;  // PyTorch's padding="same": y is as large as x; needs stride 1
};

/// x (N, in_channels, D, H, W) to y (N, out_channels, O, P, Q), both also without N. weight (out,
/// in / groups, kernel), bias (out), both drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Throws
/// ShapeError if groups does not divide the channels, and for inputs of other shapes. Agrees with
/// torch.nn.Conv3d.
struct Conv3d : ConvNd<Triple, Conv3dOptions> {
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, Triple kernel_size,
         Conv3dOptions options = {})
      : ConvNd("Conv3d", in_channels, out_channels, kernel_size, options) {}
  Tensor forward(const Tensor& x) override {
    return conv3d(padded(x), weight, bias,
                  {.stride = options.stride,
                   .padding = options.padding,
                   .dilation = options.dilation,
                   .groups = options.groups});
  }
};

}  // namespace rondo::nn
