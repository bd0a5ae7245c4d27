// EfficientNet (see efficientnet.h).

#include "nn/models/efficientnet.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/init.h"
#include "nn/linear.h"

namespace rondo::nn {

MBConv::MBConv(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
               std::int64_t stride, std::int64_t expand_ratio, double stochastic_depth_prob)
    : use_res_connect(stride == 1 && in_channels == out_channels),
      stochastic_depth(stochastic_depth_prob) {
  const std::int64_t expanded = scaled_channels(in_channels, static_cast<double>(expand_ratio));
  if (expanded != in_channels)
    block.push_back(
        conv_norm_activation(in_channels, expanded, {.kernel_size = 1, .activation = SiLU()}));
  block.push_back(conv_norm_activation(
      expanded, expanded,
      {.kernel_size = kernel_size, .stride = stride, .groups = expanded, .activation = SiLU()}));
  block.push_back(SqueezeExcitation(expanded, std::max<std::int64_t>(1, in_channels / 4)));
  block.push_back(conv_norm_activation(expanded, out_channels, {.kernel_size = 1}));
}

Tensor MBConv::forward(const Tensor& x) {
  return use_res_connect ? stochastic_depth(block(x)) + x : block(x);
}

void MBConv::visit(Visitor& v) {
  v.child("block", block);
  v.child("stochastic_depth", stochastic_depth);
}

EfficientNet::EfficientNet(const EfficientNetOptions& options) {
  struct Stage {
    std::int64_t expand_ratio, kernel, stride, channels, blocks;
  };
  constexpr Stage stages[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                              {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                              {6, 3, 1, 320, 1}};
  const auto blocks_of = [&](const Stage& stage) {
    return static_cast<std::int64_t>(
        std::ceil(static_cast<double>(stage.blocks) * options.depth_mult));
  };
  std::int64_t all = 0, block = 0;
  for (const Stage& stage : stages) all += blocks_of(stage);
  std::int64_t channels = scaled_channels(32, options.width_mult);
  features.push_back(
      conv_norm_activation(options.in_channels, channels, {.stride = 2, .activation = SiLU()}));
  for (const Stage& stage : stages) {
    const std::int64_t width = scaled_channels(stage.channels, options.width_mult);
    Sequential layers;
    for (std::int64_t i = 0; i < blocks_of(stage); ++i, ++block) {
      layers.push_back(MBConv(
          channels, width, stage.kernel, i == 0 ? stage.stride : 1, stage.expand_ratio,
          options.stochastic_depth_prob * static_cast<double>(block) / static_cast<double>(all)));
      channels = width;
    }
    features.push_back(std::move(layers));
  }
  const std::int64_t last = 4 * channels;
  features.push_back(
      conv_norm_activation(channels, last, {.kernel_size = 1, .activation = SiLU()}));
  classifier = Sequential(Dropout(options.dropout), Linear(last, options.num_classes));
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      init::kaiming_normal_(conv->weight, {.mode = init::FanMode::fan_out});
      if (conv->bias.defined()) init::zeros_(conv->bias);
    } else if (auto* linear = dynamic_cast<Linear*>(&module)) {
      const double range = 1 / std::sqrt(static_cast<double>(linear->weight.size(0)));
      init::uniform_(linear->weight, -range, range);
      init::zeros_(linear->bias);
    }
  });
}

Tensor EfficientNet::forward(const Tensor& x) {
  return classifier(flatten(adaptive_avg_pool2d(features(x), 1), 1));
}

void EfficientNet::visit(Visitor& v) {
  v.child("features", features);
  v.child("classifier", classifier);
}

}  // namespace rondo::nn
