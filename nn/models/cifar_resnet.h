#pragma once
// CifarResNet: the residual networks for 32 x 32 images of He et al. 2015 ("Deep residual learning
// for image recognition", section 4.2): a 3x3 convolution, three stages of n blocks with 16, 32 and
// 64 channels at 32 x 32, 16 x 16 and 8 x 8 pixels, the mean of each plane, a linear layer. Depth 6
// n + 2:
//
//   depth          20        32        44        56         110
//   parameters  269,722   464,154   658,586   853,018   1,727,962   (10 classes, shortcut A)
//
// The ResNet-18 … 152 of the same paper (resnet.h) are different networks. CifarResNet has about a
// fortieth of ResNet-18's parameters.

#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/pooling.h"

namespace rondo::nn {

/// The shortcut around a block that halves the plane and doubles the channels.
enum class Shortcut {
  a,  // every second pixel, zeros for the new channels: no parameters (the paper's CIFAR choice)
  b,  // a 1x1 convolution with stride and a batch norm
};

struct CifarResNetOptions {
  std::int64_t depth = 20;  // 6 n + 2
  std::int64_t num_classes = 10;
  std::int64_t in_channels = 3;
  Shortcut shortcut = Shortcut::a;
  /// Backward recomputes the intermediate results of blocks (Sequential::grad_checkpointing).
  bool grad_checkpointing = false;
};

/// y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)).
struct CifarBlock : Module {
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  AnyModule downsample;  // with shortcut b, if the shape changes; else empty

  CifarBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
             Shortcut shortcut);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// x (N, in_channels, H, W) to logits (N, num_classes). Parameters: conv1, bn1, layer1.0.conv1 …,
/// layer2.0.downsample.0 (shortcut b), fc. Convolutions are initialised by kaiming normal, fan out.
/// Throws Error if depth is not 6 n + 2.
struct CifarResNet : Module {
  Conv2d conv1;
  BatchNorm2d bn1;
  Sequential layer1, layer2, layer3;
  AdaptiveAvgPool2d avgpool{1};
  Linear fc;

  explicit CifarResNet(CifarResNetOptions options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
