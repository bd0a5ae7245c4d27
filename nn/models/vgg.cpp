// VGG (see vgg.h).

#include "nn/models/vgg.h"

#include <array>

#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/init.h"
#include "nn/linear.h"

namespace rondo::nn {
namespace {

/// The number of convolutions in each stage.
std::array<int, 5> convolutions_of(std::int64_t depth) {
  switch (depth) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      throw Error(concat("VGG: depth ", depth, " is not one of 11, 13, 16, 19"));
  }
}

}  // namespace

VGG::VGG(const VGGOptions& options) {
  const auto scaled = [&](std::int64_t width) {
    return static_cast<std::int64_t>(static_cast<double>(width) * options.width);
  };
  const std::array<int, 5> convolutions = convolutions_of(options.depth);
  std::int64_t channels = options.in_channels;
  for (std::size_t stage = 0; stage < 5; ++stage) {
    const std::int64_t width = scaled(std::array{64, 128, 256, 512, 512}[stage]);
    for (int i = 0; i < convolutions[stage]; ++i) {
      features.push_back(Conv2d(channels, width, 3, {.padding = 1}));
      if (options.batch_norm) features.push_back(BatchNorm2d(width));
      features.push_back(ReLU());
      channels = width;
    }
    features.push_back(MaxPool2d(2, {.stride = 2}));
  }
  const std::int64_t hidden = scaled(4096);
  classifier = Sequential(Linear(channels * 7 * 7, hidden), ReLU(), Dropout(options.dropout),
                          Linear(hidden, hidden), ReLU(), Dropout(options.dropout),
                          Linear(hidden, options.num_classes));
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
      init::zeros_(conv->bias);
    } else if (auto* linear = dynamic_cast<Linear*>(&module)) {
      init::normal_(linear->weight, 0, 0.01);
      init::zeros_(linear->bias);
    }
  });
}

Tensor VGG::forward(const Tensor& x) { return classifier(flatten(avgpool(features(x)), 1)); }

void VGG::visit(Visitor& v) {
  v.child("features", features);
  v.child("avgpool", avgpool);
  v.child("classifier", classifier);
}

}  // namespace rondo::nn
