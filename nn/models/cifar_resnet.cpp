// CifarResNet (see cifar_resnet.h).

#include "nn/models/cifar_resnet.h"

#include "autograd/ops/indexing.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

namespace {

/// Shortcut A: x[:, :, ::2, ::2], padded with zero channels on both sides to `channels` channels.
Tensor subsample_and_pad(const Tensor& x, std::int64_t channels, std::int64_t stride) {
  Tensor y = x;
  if (stride > 1) {
    y = slice(slice(x, 2, 0, x.size(2), stride), 3, 0, x.size(3), stride);
  }
  std::int64_t missing = channels - x.size(1);
  if (missing == 0) return y;
  auto zeros_of = [&](std::int64_t c) {
    return zeros({y.size(0), c, y.size(2), y.size(3)},
                 {.dtype = x.dtype(), .device = x.device(), .format = x.suggested_format()});
  };
  return cat({zeros_of(missing / 2), y, zeros_of(missing - missing / 2)}, 1);
}

Sequential make_stage(std::int64_t blocks, std::int64_t in_channels, std::int64_t channels,
                      std::int64_t stride, Shortcut shortcut) {
  Sequential stage;
  for (std::int64_t i = 0; i < blocks; ++i) {
    stage.push_back(
        CifarBlock(i == 0 ? in_channels : channels, channels, i == 0 ? stride : 1, shortcut));
  }
  return stage;
}

}  // namespace

CifarBlock::CifarBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                       Shortcut shortcut)
    : conv1(in_channels, channels, 3, {.stride = stride, .padding = 1, .bias = false}),
      bn1(channels),
      conv2(channels, channels, 3, {.padding = 1, .bias = false}),
      bn2(channels) {
  if (shortcut == Shortcut::b && (stride != 1 || in_channels != channels)) {
    downsample = Sequential(Conv2d(in_channels, channels, 1, {.stride = stride, .bias = false}),
                            BatchNorm2d(channels));
  }
}

Tensor CifarBlock::forward(const Tensor& x) {
  Tensor y = bn1(conv1(x), {.relu = true});
  Tensor shortcut = downsample.has_value()
                        ? downsample(x)
                        : subsample_and_pad(x, conv2.out_channels, conv1.options.stride.h);
  return bn2(conv2(y), {.residual = shortcut, .relu = true});
}

void CifarBlock::visit(Visitor& v) {
  v.child("conv1", conv1);
  v.child("bn1", bn1);
  v.child("conv2", conv2);
  v.child("bn2", bn2);
  v.child("downsample", downsample);
}

CifarResNet::CifarResNet(CifarResNetOptions options)
    : conv1(options.in_channels, 16, 3, {.padding = 1, .bias = false}),
      bn1(16),
      fc(64, options.num_classes) {
  require(options.depth >= 8 && (options.depth - 2) % 6 == 0, "CifarResNet: depth ", options.depth,
          " is not 6 n + 2");
  std::int64_t n = (options.depth - 2) / 6;
  layer1 = make_stage(n, 16, 16, 1, options.shortcut);
  layer2 = make_stage(n, 16, 32, 2, options.shortcut);
  layer3 = make_stage(n, 32, 64, 2, options.shortcut);
  for (Sequential* stage : {&layer1, &layer2, &layer3})
    stage->grad_checkpointing = options.grad_checkpointing;
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
    }
  });
}

Tensor CifarResNet::forward(const Tensor& x) {
  Tensor y = bn1(conv1(x), {.relu = true});
  y = layer3(layer2(layer1(y)));
  return fc(flatten(avgpool(y), 1));
}

void CifarResNet::visit(Visitor& v) {
  v.child("conv1", conv1);
  v.child("bn1", bn1);
  v.child("layer1", layer1);
  v.child("layer2", layer2);
  v.child("layer3", layer3);
  v.child("avgpool", avgpool);
  v.child("fc", fc);
}

}  // namespace rondo::nn
