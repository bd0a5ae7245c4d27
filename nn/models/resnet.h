#pragma once
// ResNet-18, 34, 50, 101 and 152 (He et al. 2015, table 1), with torchvision's parameter names and
// initialisation, so that torchvision's weights load unchanged. As in torchvision, the stride of a
// bottleneck is in its 3x3 convolution ("ResNet v1.5").
//
//   depth        18           34           50           101          152
//   blocks   basic 2222   basic 3463   bottl. 3463  bottl. 3 4 23 3  bottl. 3 8 36 3
//   parameters 11,689,512  21,797,672   25,557,032   44,549,160   60,192,808   (1000 classes)

#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/pooling.h"

namespace rondo::nn {

/// The first layers.
enum class Stem {
  imagenet,  // 7x7 convolution with stride 2, then 3x3 max pooling with stride 2: 224 -> 56 pixels
  cifar,     // 3x3 convolution, no pooling, because images have only 32 x 32 pixels
};

struct ResNetOptions {
  std::int64_t depth = 18;
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  Stem stem = Stem::imagenet;
  /// Starts each block as the identity by zeroing the last batch norm's weight (Goyal et al. 2017).
  bool zero_init_residual = false;
  /// Backward recomputes the intermediate results of blocks (Sequential::grad_checkpointing).
  bool grad_checkpointing = false;
};

/// Two 3x3 convolutions: y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)).
struct BasicBlock : Module {
  static constexpr std::int64_t expansion = 1;
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  AnyModule downsample;  // 1x1 convolution and batch norm, if the shape changes; else empty

  BasicBlock(std::int64_t in_channels, std::int64_t width, std::int64_t stride);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// 1x1, 3x3, 1x1: the 3x3 convolution has a quarter of the channels.
struct Bottleneck : Module {
  static constexpr std::int64_t expansion = 4;
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  AnyModule downsample;

  Bottleneck(std::int64_t in_channels, std::int64_t width, std::int64_t stride);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// x (N, in_channels, H, W) to logits (N, num_classes). To fine-tune, replace the last layer:
/// net.fc = nn::Linear(512, 10). Throws Error if depth is not in the table above.
struct ResNet : Module {
  Conv2d conv1;
  BatchNorm2d bn1;
  AnyModule maxpool;  // empty with the CIFAR stem
  Sequential layer1, layer2, layer3, layer4;
  AdaptiveAvgPool2d avgpool{1};
  AnyModule fc;

  explicit ResNet(ResNetOptions options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
