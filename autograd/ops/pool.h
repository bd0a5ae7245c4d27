#pragma once
// Pooling over (N, C, H, W), and nearest-neighbour upsampling. Floats only; channels_last stays
// channels_last. Options that leave no window throw ShapeError.

#include "autograd/ops/conv.h"
#include "tensor/tensor.h"

namespace rondo {

struct Pool2dOptions {
  using Pair = Conv2dOptions::Pair;
  Pair stride = 0;                // 0: the kernel's size
  Pair padding = 0;               // at most half the kernel
  bool ceil_mode = false;         // a last window may hang over the edge
  bool count_include_pad = true;  // average pooling: divide by the full window
};

/// The largest element of each window, padding being -inf; among equals the first one gets the
/// gradient, and NaN wins. Output sizes: (size + 2 padding - kernel) / stride + 1, rounded down, or
/// up in ceil_mode (but no window starts in the right padding). Agrees with
/// torch.nn.functional.max_pool2d.
Tensor max_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// The mean of each window, padding being 0: divided by the window's elements inside the padded
/// input, or by those inside the input without count_include_pad. Output sizes as above. Agrees
/// with torch.nn.functional.avg_pool2d.
Tensor avg_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// Averages over a grid of output_size windows that cover the plane: window i spans floor(i H / P)
/// to ceil((i + 1) H / P). Agrees with torch.nn.functional.adaptive_avg_pool2d.
Tensor adaptive_avg_pool2d(const Tensor& x, Conv2dOptions::Pair output_size);
/// Each pixel repeated scale × scale times.
Tensor upsample_nearest2d(const Tensor& x, std::int64_t scale);

}  // namespace rondo
