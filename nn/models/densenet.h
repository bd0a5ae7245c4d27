#pragma once
// DenseNet-121 (Huang et al. 2017), with torchvision's keys and initialisation: each layer gets the
// outputs of all earlier layers of its block. 7,978,856 parameters with 1000 classes.

#include <array>
#include <string>
#include <vector>

#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::nn {

/// The defaults are DenseNet-121. blocks = {6, 12, 32, 32} is DenseNet-169, {6, 12, 48, 32}
/// DenseNet-201.
struct DenseNetOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  std::int64_t growth_rate = 32;  // the channels that each layer adds
  std::array<std::int64_t, 4> blocks = {6, 12, 24, 16};
  std::int64_t num_init_features = 64;
  std::int64_t bn_size = 4;  // each layer's 1x1 convolution has bn_size growth_rate channels
  double drop_rate = 0;
};

/// growth_rate new channels from all channels before: norm, relu, 1x1 convolution, norm, relu, 3x3
/// convolution.
struct DenseLayer : Module {
  BatchNorm2d norm1;
  Conv2d conv1;
  BatchNorm2d norm2;
  Conv2d conv2;
  double drop_rate;

  DenseLayer(std::int64_t in_channels, const DenseNetOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// x and the outputs of all layers, concatenated along the channels.
struct DenseBlock : Module {
  std::vector<DenseLayer> layers;

  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// Halves the channels and the size.
struct DenseTransition : Module {
  BatchNorm2d norm;
  Conv2d conv;

  explicit DenseTransition(std::int64_t in_channels);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

struct DenseNetFeatures : Module {
  Conv2d conv0;
  BatchNorm2d norm0;
  std::vector<DenseBlock> blocks;
  std::vector<DenseTransition> transitions;
  BatchNorm2d norm5;

  explicit DenseNetFeatures(const DenseNetOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// x (N, in_channels, H, W), H and W at least 29, to logits (N, num_classes).
struct DenseNet : Module {
  DenseNetFeatures features;
  Linear classifier;

  explicit DenseNet(const DenseNetOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
