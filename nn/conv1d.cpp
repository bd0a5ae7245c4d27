// Conv1d (see conv1d.h).

#include "nn/conv1d.h"

#include <cmath>

#include "nn/conv_padding.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
               Conv1dOptions options)
    : in_channels(in_channels),
      out_channels(out_channels),
      kernel_size(kernel_size),
      options(options) {
  const std::int64_t groups = options.groups;
  require<ShapeError>(in_channels > 0 && out_channels > 0 && groups > 0 &&
                          in_channels % groups == 0 && out_channels % groups == 0,
                      "Conv1d: ", in_channels, " to ", out_channels,
                      " channels cannot be divided into ", groups, " groups");
  require<ShapeError>(kernel_size > 0, "Conv1d: kernel size ", kernel_size);
  require<ShapeError>(options.stride > 0 && options.dilation > 0 && options.padding >= 0,
                      "Conv1d: stride and dilation must be at least 1, padding at least 0");
  Conv1dOptions& o = this->options;
  outer_padding = detail::outer_padding("Conv1d", o.same_padding, o.padding_mode,
                                        {{kernel_size, o.stride, o.dilation, o.padding}});
  weight = empty({out_channels, in_channels / groups, kernel_size});
  init::kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
  weight.requires_grad_();
  if (options.bias) {
    bias = empty({out_channels});
    const double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
    init::uniform_(bias, -bound, bound);
    bias.requires_grad_();
  }
}

Tensor Conv1d::forward(const Tensor& x) {
  require<ShapeError>(x.dim() == 3 && x.size(1) == in_channels, "Conv1d: input ", x.shape(),
                      " is not (N, ", in_channels, ", L)");
  return conv1d(outer_padding.empty() ? x : pad(x, outer_padding, options.padding_mode), weight,
                bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups});
}

}  // namespace rondo::nn
