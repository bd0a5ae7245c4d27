// MobileNetV2 (see mobilenet_v2.h).

#include "nn/models/mobilenet_v2.h"

#include <algorithm>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/shape.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/models/blocks.h"

namespace rondo::nn {

InvertedResidual::InvertedResidual(std::int64_t in_channels, std::int64_t out_channels,
                                   std::int64_t stride, std::int64_t expand_ratio)
    : use_res_connect(stride == 1 && in_channels == out_channels) {
  const std::int64_t hidden = in_channels * expand_ratio;
  if (expand_ratio != 1)
    conv.push_back(
        conv_norm_activation(in_channels, hidden, {.kernel_size = 1, .activation = ReLU6()}));
  conv.push_back(conv_norm_activation(hidden, hidden,
                                      {.stride = stride, .groups = hidden, .activation = ReLU6()}));
  conv.push_back(Conv2d(hidden, out_channels, 1, {.bias = false}));
  conv.push_back(BatchNorm2d(out_channels));
}

Tensor InvertedResidual::forward(const Tensor& x) {
  return use_res_connect ? x + conv(x) : conv(x);
}

MobileNetV2::MobileNetV2(const MobileNetV2Options& options) {
  struct Stage {
    std::int64_t expand_ratio, channels, blocks, stride;
  };
  std::int64_t channels = scaled_channels(32, options.width_mult);
  features.push_back(
      conv_norm_activation(options.in_channels, channels, {.stride = 2, .activation = ReLU6()}));
  for (const Stage& stage :
       {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    const std::int64_t width = scaled_channels(stage.channels, options.width_mult);
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      features.push_back(
          InvertedResidual(channels, width, i == 0 ? stage.stride : 1, stage.expand_ratio));
      channels = width;
    }
  }
  const std::int64_t last = scaled_channels(1280, std::max(1.0, options.width_mult));
  features.push_back(
      conv_norm_activation(channels, last, {.kernel_size = 1, .activation = ReLU6()}));
  classifier = Sequential(Dropout(options.dropout), Linear(last, options.num_classes));
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      init::kaiming_normal_(conv->weight, {.mode = init::FanMode::fan_out});
    } else if (auto* linear = dynamic_cast<Linear*>(&module)) {
      init::normal_(linear->weight, 0, 0.01);
      init::zeros_(linear->bias);
    }
  });
}

Tensor MobileNetV2::forward(const Tensor& x) {
  return classifier(flatten(adaptive_avg_pool2d(features(x), 1), 1));
}

void MobileNetV2::visit(Visitor& v) {
  v.child("features", features);
  v.child("classifier", classifier);
}

}  // namespace rondo::nn
