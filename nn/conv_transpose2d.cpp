// ConvTranspose2d (see conv_transpose2d.h).

#include "nn/conv_transpose2d.h"

#include <algorithm>
#include <cmath>

#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 Pair kernel_size, ConvTranspose2dOptions options)
    : in_channels(in_channels),
      out_channels(out_channels),
      kernel_size(kernel_size),
      options(options) {
  const std::int64_t groups = options.groups;
  require<ShapeError>(in_channels > 0 && out_channels > 0 && groups > 0 &&
                          in_channels % groups == 0 && out_channels % groups == 0,
                      "ConvTranspose2d: ", in_channels, " to ", out_channels,
                      " channels cannot be divided into ", groups, " groups");
  require<ShapeError>(kernel_size.h > 0 && kernel_size.w > 0, "ConvTranspose2d: kernel size ",
                      kernel_size.h, " x ", kernel_size.w);
  const auto& [stride, padding, more, g, b, dilation] = options;
  require<ShapeError>(
      stride.h > 0 && stride.w > 0 && dilation.h > 0 && dilation.w > 0 && padding.h >= 0 &&
          padding.w >= 0,
      "ConvTranspose2d: stride and dilation must be at least 1, padding at least 0");
  require<ShapeError>(more.h >= 0 && more.h < std::max(stride.h, dilation.h) && more.w >= 0 &&
                          more.w < std::max(stride.w, dilation.w),
                      "ConvTranspose2d: output padding ", more.h, " x ", more.w,
                      " must be smaller than stride or dilation");
  weight = empty({in_channels, out_channels / groups, kernel_size.h, kernel_size.w});
  init::kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
  weight.requires_grad_();
  if (options.bias) {
    bias = empty({out_channels});
    const double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
    init::uniform_(bias, -bound, bound);
    bias.requires_grad_();
  }
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  require<ShapeError>(x.dim() == 4 && x.size(1) == in_channels, "ConvTranspose2d: input ",
                      x.shape(), " is not (N, ", in_channels, ", H, W)");
  return conv_transpose2d(x, weight, bias,
                          {.stride = options.stride,
                           .padding = options.padding,
                           .output_padding = options.output_padding,
                           .groups = options.groups,
                           .dilation = options.dilation});
}

}  // namespace rondo::nn
