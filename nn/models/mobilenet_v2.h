#pragma once
// MobileNetV2 (Sandler et al. 2018), with torchvision's keys and initialisation: blocks that widen
// the channels by a 1x1 convolution, filter each of them by itself, and narrow them again.
// 3,504,872 parameters with 1000 classes.

#include "nn/containers.h"
#include "nn/module.h"

namespace rondo::nn {

struct MobileNetV2Options {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  double width_mult = 1;  // factor of the numbers of channels, rounded to multiples of 8
  double dropout = 0.2;
};

/// x (N, in_channels, H, W) to logits (N, num_classes).
struct MobileNetV2 : Module {
  Sequential features, classifier;

  explicit MobileNetV2(const MobileNetV2Options& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// y = conv(x), or x + conv(x) where the shape stays. conv: 1x1 to expand_ratio times the channels
/// (left out for 1), 3x3 on each channel, 1x1 to the outputs.
struct InvertedResidual : Module {
  bool use_res_connect;
  Sequential conv;

  InvertedResidual(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride,
                   std::int64_t expand_ratio);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override { v.child("conv", conv); }
};

}  // namespace rondo::nn
