#pragma once
// Pooling over (N, C, H, W), and nearest-neighbour upsampling.

#include "autograd/ops/conv.h"
#include "tensor/tensor.h"

namespace rondo {

struct Pool2dOptions {
  using Pair = Conv2dOptions::Pair;
  Pair stride = 0;   // 0: the kernel's size
  Pair padding = 0;  // at most half the kernel
  bool ceil_mode = false;
  bool count_include_pad = true;  // average pooling: divide by the full window
};

Tensor max_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
Tensor avg_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// Averages over a grid of output_size windows that cover the plane.
Tensor adaptive_avg_pool2d(const Tensor& x, Conv2dOptions::Pair output_size);
/// Each pixel repeated scale × scale times.
Tensor upsample_nearest2d(const Tensor& x, std::int64_t scale);

}  // namespace rondo
