#pragma once
// VGG-11, 13, 16 and 19 (Simonyan & Zisserman 2014), with torchvision's keys and initialisation:
// 3x3 convolutions in five stages, each followed by a 2x2 max pooling, then three linear layers.
//
//   depth        11           13           16           19
//   parameters   132,863,336  133,047,848  138,357,544  143,667,240   (1000 classes, no batch norm)

#include "nn/containers.h"
#include "nn/module.h"
#include "nn/pooling.h"

namespace rondo::nn {

struct VGGOptions {
  std::int64_t depth = 16;
  bool batch_norm = false;  // after each convolution (torchvision's vgg16_bn)
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  double dropout = 0.5;
  double width = 1;  // factor of the numbers of channels and of hidden features
};

/// x (N, in_channels, H, W), H and W at least 32, to logits (N, num_classes). Throws Error if depth
/// is not in the table above.
struct VGG : Module {
  Sequential features;
  AdaptiveAvgPool2d avgpool{7};
  Sequential classifier;

  explicit VGG(const VGGOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
