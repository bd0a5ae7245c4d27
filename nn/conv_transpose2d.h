#pragma once
// ConvTranspose2d: a transposed convolution, from a small image to a large one. The arithmetic is
// in autograd/ops/conv.h.

#include "nn/conv_nd.h"

namespace rondo::nn {

struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Pair dilation = 1;
};

/// x (N, in_channels, H, W) to y (N, out_channels, P, Q), both also without N; P = (H-1) stride - 2
/// padding + dilation (kernel-1) + output_padding + 1: the input and output shapes of a Conv2d with
/// these options, swapped. weight (in, out / groups, kernel), bias (out), both drawn from
/// U(-1/sqrt(f), 1/sqrt(f)) with f = out / groups * kernel size, which is the fan_in that PyTorch
/// uses here. Throws ShapeError if groups does not divide the channels, and for inputs of other
/// shapes. Agrees with torch.nn.ConvTranspose2d.
struct ConvTranspose2d : ConvTransposeNd<Pair, ConvTranspose2dOptions, conv_transpose2d> {
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
                  ConvTranspose2dOptions options = {})
      : ConvTransposeNd("ConvTranspose2d", in_channels, out_channels, kernel_size, options) {}
};

}  // namespace rondo::nn
