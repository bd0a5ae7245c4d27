// U-Net (see unet.h).

#include "nn/models/unet.h"

#include "autograd/ops/composed.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/pooling.h"

namespace rondo::nn {

UNetDoubleConv::UNetDoubleConv(std::int64_t in_channels, std::int64_t out_channels)
    : double_conv(Conv2d(in_channels, out_channels, 3, {.padding = 1, .bias = false}),
                  BatchNorm2d(out_channels), ReLU(),
                  Conv2d(out_channels, out_channels, 3, {.padding = 1, .bias = false}),
                  BatchNorm2d(out_channels), ReLU()) {}

UNetDown::UNetDown(std::int64_t in_channels, std::int64_t out_channels)
    : maxpool_conv(MaxPool2d(2), UNetDoubleConv(in_channels, out_channels)) {}

UNetUp::UNetUp(std::int64_t in_channels, std::int64_t out_channels)
    : up(in_channels, in_channels / 2, 2, {.stride = 2}), conv(in_channels, out_channels) {}

Tensor UNetUp::join(const Tensor& below, const Tensor& across) {
  const Tensor y = up(below);
  const std::int64_t high = across.size(2) - y.size(2), wide = across.size(3) - y.size(3);
  return conv(cat({across, pad(y, {wide / 2, wide - wide / 2, high / 2, high - high / 2})}, 1));
}

Tensor UNetUp::forward(const Tensor&) {
  throw Error("UNetUp: it joins two tensors; call join(below, across)");
}

void UNetUp::visit(Visitor& v) {
  v.child("up", up);
  v.child("conv", conv);
}

UNet::UNet(const UNetOptions& options)
    : inc(options.in_channels, options.width),
      down1(options.width, 2 * options.width),
      down2(2 * options.width, 4 * options.width),
      down3(4 * options.width, 8 * options.width),
      down4(8 * options.width, 16 * options.width),
      up1(16 * options.width, 8 * options.width),
      up2(8 * options.width, 4 * options.width),
      up3(4 * options.width, 2 * options.width),
      up4(2 * options.width, options.width),
      outc(options.width, options.num_classes) {}

Tensor UNet::forward(const Tensor& x) {
  const Tensor x1 = inc(x), x2 = down1(x1), x3 = down2(x2), x4 = down3(x3);
  Tensor y = up1.join(down4(x4), x4);
  y = up2.join(y, x3);
  y = up3.join(y, x2);
  return outc(up4.join(y, x1));
}

void UNet::visit(Visitor& v) {
  v.child("inc", inc);
  v.child("down1", down1);
  v.child("down2", down2);
  v.child("down3", down3);
  v.child("down4", down4);
  v.child("up1", up1);
  v.child("up2", up2);
  v.child("up3", up3);
  v.child("up4", up4);
  v.child("outc", outc);
}

}  // namespace rondo::nn
