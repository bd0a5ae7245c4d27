#pragma once
// ConvTranspose3d: a transposed convolution, from a small volume to a large one. The arithmetic is
// in autograd/ops/conv.h.

#include "nn/conv_nd.h"

namespace rondo::nn {

struct ConvTranspose3dOptions {
  Triple stride = 1, padding = 0, output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Triple dilation = 1;
};

/// x (N, in_channels, D, H, W) to y (N, out_channels, O, P, Q), both also without N; P = (H-1)
/// stride - 2 padding + dilation (kernel-1) + output_padding + 1: the input and output shapes of a
/// Conv3d with these options, swapped. weight (in, out / groups, kernel), bias (out), both drawn
/// from U(-1/sqrt(f), 1/sqrt(f)) with f = out / groups * kernel size, which is the fan_in that
/// PyTorch uses here. Throws ShapeError if groups does not divide the channels, and for inputs of
/// other shapes. Agrees with torch.nn.ConvTranspose3d.
struct ConvTranspose3d : ConvTransposeNd<Triple, ConvTranspose3dOptions, conv_transpose3d> {
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, Triple kernel_size,
                  ConvTranspose3dOptions options = {})
      : ConvTransposeNd("ConvTranspose3d", in_channels, out_channels, kernel_size, options) {}
};

}  // namespace rondo::nn
