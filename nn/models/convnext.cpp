// ConvNeXt (see convnext.h).

#include "nn/models/convnext.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/flatten.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

/// Reorders dimensions (torchvision's Permute).
struct Permute : Module {
  Dims dims;
  explicit Permute(const Dims& dims) : dims(dims) {}
  Tensor forward(const Tensor& x) override { return permute(x, dims); }
};

}  // namespace

ConvNeXtBlock::ConvNeXtBlock(std::int64_t dim, double scale, double stochastic_depth_prob)
    : layer_scale(full({dim, 1, 1}, scale).requires_grad_()),
      block(Conv2d(dim, dim, 7, {.padding = 3, .groups = dim}), Permute({0, 2, 3, 1}),
            LayerNorm(dim, {.eps = 1e-6}), Linear(dim, 4 * dim), GELU(), Linear(4 * dim, dim),
            Permute({0, 3, 1, 2})),
      stochastic_depth(stochastic_depth_prob) {}

Tensor ConvNeXtBlock::forward(const Tensor& x) {
  return stochastic_depth(layer_scale * block(x)) + x;
}

void ConvNeXtBlock::visit(Visitor& v) {
  v.parameter("layer_scale", layer_scale);
  v.child("block", block);
  v.child("stochastic_depth", stochastic_depth);
}

ConvNeXt::ConvNeXt(const ConvNeXtOptions& options) {
  const LayerNormOptions norm{.eps = 1e-6};
  std::int64_t all = 0, block = 0;
  for (const std::int64_t blocks : options.blocks) all += blocks;
  features.push_back(Sequential(Conv2d(options.in_channels, options.channels[0], 4, {.stride = 4}),
                                LayerNorm2d(options.channels[0], norm)));
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::int64_t dim = options.channels[stage];
    Sequential blocks;
    for (std::int64_t i = 0; i < options.blocks[stage]; ++i, ++block)
      blocks.push_back(ConvNeXtBlock(dim, options.layer_scale,
                                     options.stochastic_depth_prob * static_cast<double>(block) /
                                         (static_cast<double>(all) - 1)));
    features.push_back(std::move(blocks));
    if (stage < 3)
      features.push_back(Sequential(LayerNorm2d(dim, norm),
                                    Conv2d(dim, options.channels[stage + 1], 2, {.stride = 2})));
  }
  classifier = Sequential(LayerNorm2d(options.channels[3], norm), Flatten(1),
                          Linear(options.channels[3], options.num_classes));
  const auto start = [](Tensor& weight, Tensor& bias) {
    init::trunc_normal_(weight, 0, 0.02);
    init::zeros_(bias);
  };
  apply([&](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) start(conv->weight, conv->bias);
    if (auto* linear = dynamic_cast<Linear*>(&module)) start(linear->weight, linear->bias);
  });
}

Tensor ConvNeXt::forward(const Tensor& x) {
  return classifier(adaptive_avg_pool2d(features(x), 1));
}

void ConvNeXt::visit(Visitor& v) {
  v.child("features", features);
  v.child("classifier", classifier);
}

}  // namespace rondo::nn
