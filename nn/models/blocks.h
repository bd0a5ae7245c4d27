#pragma once
// Blocks that several of the models share, with torchvision's names (torchvision.ops).

#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/module.h"
#include "nn/norm.h"

namespace rondo::nn {

struct ConvNormActivationOptions {
  std::int64_t kernel_size = 3, stride = 1, groups = 1;
  AnyModule activation = {};  // empty: none
};

/// A convolution without bias that keeps the size at stride 1, a batch norm and an activation
/// (torchvision's Conv2dNormActivation). Its keys begin with "0", "1".
Sequential conv_norm_activation(std::int64_t in_channels, std::int64_t out_channels,
                                ConvNormActivationOptions options = {});

/// y = x s with one factor s = sigmoid(fc2(act(fc1(mean of x)))) for each channel (Hu et al. 2018).
/// x and y (N, channels, H, W); fc1 and fc2 are 1x1 convolutions, act is SiLU.
struct SqueezeExcitation : Module {
  Conv2d fc1, fc2;

  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// In training, zeroes whole samples of x (N, …) with probability p and scales the others by 1 / (1
/// - p); in evaluation y = x. For branches that are added to their input (Huang et al. 2016).
/// Throws Error unless 0 <= p <= 1. Agrees with torchvision's StochasticDepth of mode "row".
struct StochasticDepth : Module {
  double p;

  explicit StochasticDepth(double p) : p(p) {
    require(p >= 0 && p <= 1, "StochasticDepth: the probability is ", p, ", but must be in [0, 1]");
  }
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override { return concat("p=", p, ", mode=row"); }
};

/// LayerNorm over the channels of each pixel: x (N, C, H, W).
struct LayerNorm2d : LayerNorm {
  using LayerNorm::LayerNorm;
  Tensor forward(const Tensor& x) override;
};

/// `channels` times `factor`, rounded to a multiple of `divisor`, but at least 90 % of the exact
/// product (torchvision's _make_divisible).
std::int64_t scaled_channels(std::int64_t channels, double factor, std::int64_t divisor = 8);

}  // namespace rondo::nn
