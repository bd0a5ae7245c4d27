#pragma once
// Conv2d: a learned filter slid over an image. The arithmetic is in autograd/ops/conv.h.

#include <typeinfo>

#include "autograd/ops/activation.h"
#include "nn/conv_nd.h"

namespace rondo::nn {

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  // what the padding holds; constant: zeros
  bool same_padding = false;  // PyTorch's padding="same": y is as large as x; needs stride 1
};

/// x (N, in_channels, H, W) to y (N, out_channels, P, Q), both also without N. weight (out, in /
/// groups, kernel), bias (out), both drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)). Throws
/// ShapeError if groups does not divide the channels, and for inputs of other shapes. Agrees with
/// torch.nn.Conv2d.
///
///   nn::Conv2d conv(3, 16, 3, {.stride = 2, .padding = 1, .bias = false});
struct Conv2d : ConvNd<Pair, Conv2dOptions> {
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
         Conv2dOptions options = {})
      : ConvNd("Conv2d", in_channels, out_channels, kernel_size, options) {}
  Tensor forward(const Tensor& x) override { return convolved(x, Activation::none); }
  using Module::operator();
  /// The fused form: y = activation(conv(x)) in one op (autograd/ops/conv.h).
  Tensor operator()(const Tensor& x, Activation activation) {
    // A substitute or a derived class computes with its own forward.
    if (substitute() != nullptr || typeid(*this) != typeid(Conv2d))
      return rondo::detail::activated(Module::operator()(x), activation);
    return call([&](const Tensor& in) { return convolved(in, activation); }, x);
  }

 private:
  Tensor convolved(const Tensor& x, Activation activation) const {
    return conv2d(padded(x), weight, bias,
                  {.stride = options.stride,
                   .padding = options.padding,
                   .dilation = options.dilation,
                   .groups = options.groups},
                  activation);
  }
};

}  // namespace rondo::nn
