#pragma once
// Pooling over (N, C, H, W), and nearest-neighbour upsampling. Inputs must be floating-point;
// channels_last stays channels_last. Throws ShapeError if the options leave no window.

#include "autograd/ops/conv.h"
#include "tensor/tensor.h"

namespace rondo {

struct Pool2dOptions {
  using Pair = Conv2dOptions::Pair;
  Pair stride = 0;                // 0: the kernel size
  Pair padding = 0;               // at most half the kernel size
  bool ceil_mode = false;         // a last window may extend past the edge
  bool count_include_pad = true;  // average pooling: divide by the full window
};

/// The largest element of each window; padding counts as -inf. If several elements are equal, the
/// first one gets the gradient. NaN counts as largest. Output size: (size + 2 padding - kernel) /
/// stride + 1, rounded down, or up in ceil_mode (but no window starts in the right padding). Agrees
/// with torch.nn.functional.max_pool2d.
Tensor max_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// The mean of each window; padding counts as 0. The sum is divided by the number of elements of
/// the window that are inside the padded input, or inside the input if count_include_pad is false.
/// Output sizes as for max_pool2d. Agrees with torch.nn.functional.avg_pool2d.
Tensor avg_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// Averages over a grid of output_size windows that cover the plane: window i spans floor(i H / P)
/// to ceil((i + 1) H / P). Agrees with torch.nn.functional.adaptive_avg_pool2d.
Tensor adaptive_avg_pool2d(const Tensor& x, Conv2dOptions::Pair output_size);
/// Repeats each pixel scale × scale times.
Tensor upsample_nearest2d(const Tensor& x, std::int64_t scale);

}  // namespace rondo
