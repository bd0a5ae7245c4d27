#pragma once
// ConvTranspose1d: a transposed convolution, from a short sequence to a long one. The arithmetic is
// in autograd/ops/conv.h.

#include "nn/conv_nd.h"

namespace rondo::nn {

struct ConvTranspose1dOptions {
  std::int64_t stride = 1, padding = 0, output_padding = 0, groups = 1;
  bool bias = true;
  std::int64_t dilation = 1;
};

/// x (N, in_channels, L) to y (N, out_channels, Q), both also without N; Q = (L-1) stride - 2
/// padding + dilation (kernel-1) + output_padding + 1: the input and output shapes of a Conv1d with
/// these options, swapped. weight (in, out / groups, kernel), bias (out), both drawn from
/// U(-1/sqrt(f), 1/sqrt(f)) with f = out / groups * kernel size, which is the fan_in that PyTorch
/// uses here. Throws ShapeError if groups does not divide the channels, and for inputs of other
/// shapes. Agrees with torch.nn.ConvTranspose1d.
struct ConvTranspose1d : ConvTransposeNd<std::int64_t, ConvTranspose1dOptions, conv_transpose1d> {
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  ConvTranspose1dOptions options = {})
      : ConvTransposeNd("ConvTranspose1d", in_channels, out_channels, kernel_size, options) {}
};

}  // namespace rondo::nn
