// DenseNet (see densenet.h).

#include "nn/models/densenet.h"

#include "autograd/ops/activation.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"

namespace rondo::nn {
namespace {

/// The channels after all blocks: each adds growth_rate for each of its layers, and each transition
/// halves them.
std::int64_t channels_after(const DenseNetOptions& options) {
  std::int64_t channels = options.num_init_features;
  for (std::size_t b = 0; b < 4; ++b) {
    channels += options.blocks[b] * options.growth_rate;
    if (b < 3) channels /= 2;
  }
  return channels;
}

}  // namespace

DenseLayer::DenseLayer(std::int64_t in_channels, const DenseNetOptions& options)
    : norm1(in_channels),
      conv1(in_channels, options.bn_size * options.growth_rate, 1, {.bias = false}),
      norm2(options.bn_size * options.growth_rate),
      conv2(options.bn_size * options.growth_rate, options.growth_rate, 3,
            {.padding = 1, .bias = false}),
      drop_rate(options.drop_rate) {}

Tensor DenseLayer::forward(const Tensor& x) {
  const Tensor y = conv2(norm2(conv1(norm1(x, {.relu = true})), {.relu = true}));
  return dropout(y, drop_rate, is_training());
}

void DenseLayer::visit(Visitor& v) {
  v.child("norm1", norm1);
  v.child("conv1", conv1);
  v.child("norm2", norm2);
  v.child("conv2", conv2);
}

Tensor DenseBlock::forward(const Tensor& x) {
  Tensors all = {x};
  for (DenseLayer& layer : layers) all.push_back(layer(cat(all, 1)));
  return cat(all, 1);
}

void DenseBlock::visit(Visitor& v) {
  for (std::size_t i = 0; i < layers.size(); ++i) v.child(concat("denselayer", i + 1), layers[i]);
}

DenseTransition::DenseTransition(std::int64_t in_channels)
    : norm(in_channels), conv(in_channels, in_channels / 2, 1, {.bias = false}) {}

Tensor DenseTransition::forward(const Tensor& x) {
  return avg_pool2d(conv(norm(x, {.relu = true})), 2, {.stride = 2});
}

void DenseTransition::visit(Visitor& v) {
  v.child("norm", norm);
  v.child("conv", conv);
}

DenseNetFeatures::DenseNetFeatures(const DenseNetOptions& options)
    : conv0(options.in_channels, options.num_init_features, 7,
            {.stride = 2, .padding = 3, .bias = false}),
      norm0(options.num_init_features),
      norm5(channels_after(options)) {
  std::int64_t channels = options.num_init_features;
  for (std::size_t b = 0; b < 4; ++b) {
    DenseBlock block;
    for (std::int64_t i = 0; i < options.blocks[b]; ++i, channels += options.growth_rate)
      block.layers.push_back(DenseLayer(channels, options));
    blocks.push_back(std::move(block));
    if (b == 3) break;
    transitions.push_back(DenseTransition(channels));
    channels /= 2;
  }
}

Tensor DenseNetFeatures::forward(const Tensor& x) {
  Tensor y = max_pool2d(norm0(conv0(x), {.relu = true}), 3, {.stride = 2, .padding = 1});
  for (std::size_t b = 0; b < 4; ++b) {
    y = blocks[b](y);
    if (b < 3) y = transitions[b](y);
  }
  return norm5(y, {.relu = true});
}

void DenseNetFeatures::visit(Visitor& v) {
  v.child("conv0", conv0);
  v.child("norm0", norm0);
  for (std::size_t b = 0; b < 4; ++b) {
    v.child(concat("denseblock", b + 1), blocks[b]);
    if (b < 3) v.child(concat("transition", b + 1), transitions[b]);
  }
  v.child("norm5", norm5);
}

DenseNet::DenseNet(const DenseNetOptions& options)
    : features(options), classifier(channels_after(options), options.num_classes) {
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) init::kaiming_normal_(conv->weight);
  });
  init::zeros_(classifier.bias);
}

Tensor DenseNet::forward(const Tensor& x) {
  return classifier(flatten(adaptive_avg_pool2d(features(x), 1), 1));
}

void DenseNet::visit(Visitor& v) {
  v.child("features", features);
  v.child("classifier", classifier);
}

}  // namespace rondo::nn
