// Conv2d (see conv2d.h).

#include "nn/conv2d.h"

#include <cmath>

#include "nn/conv_padding.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
               Conv2dOptions options)
    : in_channels(in_channels),
      out_channels(out_channels),
      kernel_size(kernel_size),
      options(options) {
  std::int64_t groups = options.groups;
  require<ShapeError>(in_channels > 0 && out_channels > 0 && groups > 0 &&
                          in_channels % groups == 0 && out_channels % groups == 0,
                      "Conv2d: ", in_channels, " to ", out_channels,
                      " channels cannot be divided into ", groups, " groups");
  require<ShapeError>(kernel_size.h > 0 && kernel_size.w > 0, "Conv2d: kernel size ", kernel_size.h,
                      " x ", kernel_size.w);
  require<ShapeError>(options.stride.h > 0 && options.stride.w > 0 && options.dilation.h > 0 &&
                          options.dilation.w > 0 && options.padding.h >= 0 &&
                          options.padding.w >= 0,
                      "Conv2d: stride and dilation must be at least 1, padding at least 0");
  Conv2dOptions& o = this->options;
  outer_padding = detail::outer_padding("Conv2d", o.same_padding, o.padding_mode,
                                        {{kernel_size.w, o.stride.w, o.dilation.w, o.padding.w},
                                         {kernel_size.h, o.stride.h, o.dilation.h, o.padding.h}});
  weight = empty({out_channels, in_channels / groups, kernel_size.h, kernel_size.w});
  init::kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
  weight.requires_grad_();
  if (options.bias) {
    bias = empty({out_channels});
    double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
    init::uniform_(bias, -bound, bound);
    bias.requires_grad_();
  }
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(padded(x), weight, bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups});
}

}  // namespace rondo::nn
