#pragma once
// Pooling over (N, C, H, W), and nearest-neighbour upsampling. Inputs must be floating-point;
// channels_last stays channels_last. Pooling also takes one image without a batch, (C, H, W).
// Throws ShapeError if the options leave no window.

#include <optional>

#include "autograd/ops/conv.h"
#include "autograd/ops/reduce.h"
#include "tensor/tensor.h"

namespace rondo {

struct Pool2dOptions {
  using Pair = Conv2dOptions::Pair;
  Pair stride = 0;                // 0: the kernel size
  Pair padding = 0;               // at most half the kernel size
  Pair dilation = 1;              // max pooling: the distance of a window's elements
  bool ceil_mode = false;         // a last window may extend past the edge
  bool count_include_pad = true;  // average pooling: divide by the full window
  std::optional<std::int64_t> divisor_override = {};  // average pooling: divide by this number
};

/// The largest element of each window; padding counts as -inf. If several elements are equal, the
/// first one gets the gradient. NaN counts as largest. Output size: (size + 2 padding - kernel) /
/// stride + 1, rounded down, or up in ceil_mode (but no window starts in the right padding). Agrees
/// with torch.nn.functional.max_pool2d.
Tensor max_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// The same, with the positions h W + w of the elements (i64).
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, Conv2dOptions::Pair kernel,
                                         Pool2dOptions options = {});
/// The mean of each window; padding counts as 0. The sum is divided by the number of elements of
/// the window that are inside the padded input, or inside the input if count_include_pad is false,
/// or by divisor_override. Throws Error for a divisor of 0. Output sizes as for max_pool2d. Agrees
/// with torch.nn.functional.avg_pool2d.
Tensor avg_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options = {});
/// Averages over a grid of output_size windows that cover the plane: window i spans floor(i H / P)
/// to ceil((i + 1) H / P). Agrees with torch.nn.functional.adaptive_avg_pool2d.
Tensor adaptive_avg_pool2d(const Tensor& x, Conv2dOptions::Pair output_size);
/// Repeats each pixel scale × scale times.
Tensor upsample_nearest2d(const Tensor& x, std::int64_t scale);

// The following are composed of other ops (composed_pool.cpp). They agree with the functions of
// these names in torch.nn.functional.

/// The largest element of each window of adaptive_avg_pool2d; and their positions, h W + w.
Tensor adaptive_max_pool2d(const Tensor& x, Conv2dOptions::Pair output_size);
ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x, Conv2dOptions::Pair output_size);

/// (Σ x^p)^(1/p) over each window. The gradient of a window of zeros is 0 (PyTorch's is NaN).
Tensor lp_pool2d(const Tensor& x, double p, Conv2dOptions::Pair kernel, Pool2dOptions options = {});

struct MaxUnpool2dOptions {
  using Pair = Conv2dOptions::Pair;
  Pair stride = 0, padding = 0;  // those of the pooling; stride 0: the kernel size
  /// Not given: (size - 1) stride - 2 padding + kernel.
  std::optional<Pair> output_size = {};
};
/// Zeros, with x at the positions that max_pool2d_with_indices returned. Of several elements with
/// the same position the last is taken; each has the gradient of that position. Throws ShapeError
/// if the output size differs by a stride or more from the default, and for an index outside of it.
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Conv2dOptions::Pair kernel,
                    MaxUnpool2dOptions options = {});

struct Pool1dOptions {
  std::int64_t stride = 0, padding = 0, dilation = 1;  // stride 0: the kernel size
  bool ceil_mode = false;
  bool count_include_pad = true;
};
struct MaxUnpool1dOptions {
  std::int64_t stride = 0, padding = 0;
  std::optional<std::int64_t> output_size = {};
};
// Over (N, C, L), as the ops above. Positions count along L.
Tensor max_pool1d(const Tensor& x, std::int64_t kernel, Pool1dOptions options = {});
ValuesAndIndices max_pool1d_with_indices(const Tensor& x, std::int64_t kernel,
                                         Pool1dOptions options = {});
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, Pool1dOptions options = {});
Tensor lp_pool1d(const Tensor& x, double p, std::int64_t kernel, Pool1dOptions options = {});
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size);
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t output_size);
ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, std::int64_t output_size);
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, std::int64_t kernel,
                    MaxUnpool1dOptions options = {});

struct Pool3dOptions {
  using Triple = Conv3dOptions::Triple;
  Triple stride = 0, padding = 0, dilation = 1;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};
};
struct MaxUnpool3dOptions {
  using Triple = Conv3dOptions::Triple;
  Triple stride = 0, padding = 0;
  std::optional<Triple> output_size = {};
};
// Over (N, C, D, H, W), as the ops above. Positions are (d H + h) W + w.
Tensor max_pool3d(const Tensor& x, Conv3dOptions::Triple kernel, Pool3dOptions options = {});
ValuesAndIndices max_pool3d_with_indices(const Tensor& x, Conv3dOptions::Triple kernel,
                                         Pool3dOptions options = {});
Tensor avg_pool3d(const Tensor& x, Conv3dOptions::Triple kernel, Pool3dOptions options = {});
Tensor lp_pool3d(const Tensor& x, double p, Conv3dOptions::Triple kernel,
                 Pool3dOptions options = {});
Tensor adaptive_avg_pool3d(const Tensor& x, Conv3dOptions::Triple output_size);
Tensor adaptive_max_pool3d(const Tensor& x, Conv3dOptions::Triple output_size);
ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x,
                                                  Conv3dOptions::Triple output_size);
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Conv3dOptions::Triple kernel,
                    MaxUnpool3dOptions options = {});

}  // namespace rondo
