#pragma once
// Pooling and upsampling as modules. They change the size of the plane and have no parameters.
// Formulas, options and errors are in autograd/ops/pool.h.

#include "autograd/ops/pool.h"
#include "nn/module.h"

namespace rondo::nn {

/// nn::MaxPool2d pool(3, {.stride = 2, .padding = 1});
struct MaxPool2d : Module {
  Pool2dOptions::Pair kernel_size;
  Pool2dOptions options;
  explicit MaxPool2d(Pool2dOptions::Pair kernel_size, Pool2dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, kernel_size, options); }
};

struct AvgPool2d : Module {
  Pool2dOptions::Pair kernel_size;
  Pool2dOptions options;
  explicit AvgPool2d(Pool2dOptions::Pair kernel_size, Pool2dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, kernel_size, options); }
};

/// AdaptiveAvgPool2d(1) is the mean of each plane, as at the end of a ResNet.
struct AdaptiveAvgPool2d : Module {
  Pool2dOptions::Pair output_size;
  explicit AdaptiveAvgPool2d(Pool2dOptions::Pair output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, output_size); }
};

/// Nearest neighbour: repeats each pixel scale_factor x scale_factor times.
struct Upsample : Module {
  std::int64_t scale_factor;
  explicit Upsample(std::int64_t scale_factor) : scale_factor(scale_factor) {
    require<ShapeError>(scale_factor > 0, "Upsample: the scale factor is ", scale_factor);
  }
  Tensor forward(const Tensor& x) override { return upsample_nearest2d(x, scale_factor); }
};

}  // namespace rondo::nn
