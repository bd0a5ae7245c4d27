#pragma once
// ConvNeXt-T (Liu et al. 2022), with torchvision's keys and initialisation: convolutions built like
// a Transformer, with 7x7 filters of single channels and layer norms. 28,589,128 parameters with
// 1000 classes.

#include <array>

#include "nn/containers.h"
#include "nn/models/blocks.h"
#include "nn/module.h"

namespace rondo::nn {

/// The defaults are ConvNeXt-T.
struct ConvNeXtOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  std::array<std::int64_t, 4> channels = {96, 192, 384, 768};
  std::array<std::int64_t, 4> blocks = {3, 3, 9, 3};
  double stochastic_depth_prob = 0.1;  // of the last block; it grows linearly from 0
  double layer_scale = 1e-6;           // how much each block adds at the start
};

/// x (N, in_channels, H, W), H and W at least 32, to logits (N, num_classes).
struct ConvNeXt : Module {
  Sequential features, classifier;

  explicit ConvNeXt(const ConvNeXtOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// y = x + layer_scale block(x), dropped at random for whole samples. block: a 7x7 filter of each
/// channel, and pixel by pixel a layer norm, a linear layer to 4 dim, GELU, a linear layer to dim.
struct ConvNeXtBlock : Module {
  Tensor layer_scale;  // (dim, 1, 1)
  Sequential block;
  StochasticDepth stochastic_depth;

  ConvNeXtBlock(std::int64_t dim, double scale, double stochastic_depth_prob);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
