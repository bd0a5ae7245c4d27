#pragma once
// EfficientNet-B0 (Tan & Le 2019), with torchvision's keys and initialisation: MobileNetV2's blocks
// with SiLU and squeeze-and-excitation. 5,288,548 parameters with 1000 classes.

#include "nn/containers.h"
#include "nn/models/blocks.h"
#include "nn/module.h"

namespace rondo::nn {

struct EfficientNetOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  double width_mult = 1;  // factors of the numbers of channels and of blocks; B0 has 1 and 1,
  double depth_mult = 1;  // B1 1 and 1.1, B2 1.1 and 1.2, B3 1.2 and 1.4, B4 1.4 and 1.8
  double dropout = 0.2;
  double stochastic_depth_prob = 0.2;  // of the last block; it grows linearly from the first
};

/// x (N, in_channels, H, W) to logits (N, num_classes).
struct EfficientNet : Module {
  Sequential features, classifier;

  explicit EfficientNet(const EfficientNetOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// y = block(x), or x + block(x), dropped at random for whole samples, where the shape stays.
struct MBConv : Module {
  bool use_res_connect;
  Sequential block;
  StochasticDepth stochastic_depth;

  MBConv(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         std::int64_t stride, std::int64_t expand_ratio, double stochastic_depth_prob);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
