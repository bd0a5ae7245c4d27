// ResNet (see resnet.h). Each batch norm includes the relu in its pass over memory, and the last
// one of a block also includes the shortcut (nn/batch_norm.h, Fusion).

#include "nn/models/resnet.h"

#include <array>

#include "autograd/ops/shape.h"
#include "nn/init.h"

namespace rondo::nn {

namespace {

AnyModule make_downsample(std::int64_t in_channels, std::int64_t out_channels,
                          std::int64_t stride) {
  if (stride == 1 && in_channels == out_channels) return {};
  return Sequential(Conv2d(in_channels, out_channels, 1, {.stride = stride, .bias = false}),
                    BatchNorm2d(out_channels));
}

Conv2d make_stem(const ResNetOptions& options) {
  return options.stem == Stem::imagenet
             ? Conv2d(options.in_channels, 64, 7, {.stride = 2, .padding = 3, .bias = false})
             : Conv2d(options.in_channels, 64, 3, {.padding = 1, .bias = false});
}

struct ResNetLayout {
  bool bottleneck;
  std::array<std::int64_t, 4> blocks;
};

ResNetLayout layout_of(std::int64_t depth) {
  switch (depth) {
    case 18:
      return {false, {2, 2, 2, 2}};
    case 34:
      return {false, {3, 4, 6, 3}};
    case 50:
      return {true, {3, 4, 6, 3}};
    case 101:
      return {true, {3, 4, 23, 3}};
    case 152:
      return {true, {3, 8, 36, 3}};
    default:
      throw Error(concat("ResNet: depth ", depth, " is not one of 18, 34, 50, 101, 152"));
  }
}

/// `blocks` blocks of a given width. Sets in_channels to the number of output channels.
template <class Block>
Sequential make_stage(std::int64_t& in_channels, std::int64_t width, std::int64_t blocks,
                      std::int64_t stride) {
  Sequential stage;
  for (std::int64_t i = 0; i < blocks; ++i) {
    stage.push_back(Block(in_channels, width, i == 0 ? stride : 1));
    in_channels = width * Block::expansion;
  }
  return stage;
}

void initialise(Module& model, bool zero_init_residual) {
  model.apply([zero_init_residual](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
    } else if (!zero_init_residual) {
      return;
    } else if (auto* basic = dynamic_cast<BasicBlock*>(&module)) {
      init::zeros_(basic->bn2.weight);
    } else if (auto* bottleneck = dynamic_cast<Bottleneck*>(&module)) {
      init::zeros_(bottleneck->bn3.weight);
    }
  });
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in_channels, std::int64_t width, std::int64_t stride)
    : conv1(in_channels, width, 3, {.stride = stride, .padding = 1, .bias = false}),
      bn1(width),
      conv2(width, width, 3, {.padding = 1, .bias = false}),
      bn2(width),
      downsample(make_downsample(in_channels, width * expansion, stride)) {}

Tensor BasicBlock::forward(const Tensor& x) {
  Tensor y = bn1(conv1(x), {.relu = true});
  Tensor shortcut = downsample.has_value() ? downsample(x) : x;
  return bn2(conv2(y), {.residual = shortcut, .relu = true});
}

void BasicBlock::visit(Visitor& v) {
  v.child("conv1", conv1);
  v.child("bn1", bn1);
  v.child("conv2", conv2);
  v.child("bn2", bn2);
  v.child("downsample", downsample);
}

Bottleneck::Bottleneck(std::int64_t in_channels, std::int64_t width, std::int64_t stride)
    : conv1(in_channels, width, 1, {.bias = false}),
      bn1(width),
      conv2(width, width, 3, {.stride = stride, .padding = 1, .bias = false}),
      bn2(width),
      conv3(width, width * expansion, 1, {.bias = false}),
      bn3(width * expansion),
      downsample(make_downsample(in_channels, width * expansion, stride)) {}

Tensor Bottleneck::forward(const Tensor& x) {
  Tensor y = bn1(conv1(x), {.relu = true});
  y = bn2(conv2(y), {.relu = true});
  Tensor shortcut = downsample.has_value() ? downsample(x) : x;
  return bn3(conv3(y), {.residual = shortcut, .relu = true});
}

void Bottleneck::visit(Visitor& v) {
  v.child("conv1", conv1);
  v.child("bn1", bn1);
  v.child("conv2", conv2);
  v.child("bn2", bn2);
  v.child("conv3", conv3);
  v.child("bn3", bn3);
  v.child("downsample", downsample);
}

ResNet::ResNet(ResNetOptions options) : conv1(make_stem(options)), bn1(64) {
  ResNetLayout layout = layout_of(options.depth);
  std::int64_t channels = 64;
  auto stage = [&](int i, std::int64_t width, std::int64_t stride) {
    std::int64_t blocks = layout.blocks[static_cast<std::size_t>(i)];
    return layout.bottleneck ? make_stage<Bottleneck>(channels, width, blocks, stride)
                             : make_stage<BasicBlock>(channels, width, blocks, stride);
  };
  if (options.stem == Stem::imagenet) maxpool = MaxPool2d(3, {.stride = 2, .padding = 1});
  layer1 = stage(0, 64, 1);
  layer2 = stage(1, 128, 2);
  layer3 = stage(2, 256, 2);
  layer4 = stage(3, 512, 2);
  for (Sequential* blocks : {&layer1, &layer2, &layer3, &layer4})
    blocks->grad_checkpointing = options.grad_checkpointing;
  fc = Linear(channels, options.num_classes);
  initialise(*this, options.zero_init_residual);
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = bn1(conv1(x), {.relu = true});
  if (maxpool.has_value()) y = maxpool(y);
  y = layer4(layer3(layer2(layer1(y))));
  return fc(flatten(avgpool(y), 1));
}

void ResNet::visit(Visitor& v) {
  v.child("conv1", conv1);
  v.child("bn1", bn1);
  v.child("maxpool", maxpool);
  v.child("layer1", layer1);
  v.child("layer2", layer2);
  v.child("layer3", layer3);
  v.child("layer4", layer4);
  v.child("avgpool", avgpool);
  v.child("fc", fc);
}

}  // namespace rondo::nn
