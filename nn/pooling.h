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
  std::string extra_repr() const override;
};

struct AvgPool2d : Module {
  Pool2dOptions::Pair kernel_size;
  Pool2dOptions options;
  explicit AvgPool2d(Pool2dOptions::Pair kernel_size, Pool2dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, kernel_size, options); }
  std::string extra_repr() const override;
};

/// AdaptiveAvgPool2d(1) is the mean of each plane, as at the end of a ResNet.
struct AdaptiveAvgPool2d : Module {
  Pool2dOptions::Pair output_size;
  explicit AdaptiveAvgPool2d(Pool2dOptions::Pair output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, output_size); }
  std::string extra_repr() const override;
};

struct AdaptiveMaxPool2d : Module {
  Pool2dOptions::Pair output_size;
  explicit AdaptiveMaxPool2d(Pool2dOptions::Pair output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_max_pool2d(x, output_size); }
};

struct LPPool2d : Module {
  double norm_type;
  Pool2dOptions::Pair kernel_size;
  Pool2dOptions options;
  LPPool2d(double norm_type, Pool2dOptions::Pair kernel_size, Pool2dOptions options = {})
      : norm_type(norm_type), kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return lp_pool2d(x, norm_type, kernel_size, options); }
};

/// Not a module, because it needs the indices of max_pool2d_with_indices:
/// nn::MaxUnpool2d unpool(2); unpool(y, indices).
struct MaxUnpool2d {
  Pool2dOptions::Pair kernel_size;
  MaxUnpool2dOptions options;
  explicit MaxUnpool2d(Pool2dOptions::Pair kernel_size, MaxUnpool2dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor operator()(const Tensor& x, const Tensor& indices) const {
    return max_unpool2d(x, indices, kernel_size, options);
  }
};

/// The classes for sequences (N, C, L) and volumes (N, C, D, H, W).
struct MaxPool1d : Module {
  std::int64_t kernel_size;
  Pool1dOptions options;
  explicit MaxPool1d(std::int64_t kernel_size, Pool1dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return max_pool1d(x, kernel_size, options); }
};

struct AvgPool1d : Module {
  std::int64_t kernel_size;
  Pool1dOptions options;
  explicit AvgPool1d(std::int64_t kernel_size, Pool1dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return avg_pool1d(x, kernel_size, options); }
};

struct LPPool1d : Module {
  double norm_type;
  std::int64_t kernel_size;
  Pool1dOptions options;
  LPPool1d(double norm_type, std::int64_t kernel_size, Pool1dOptions options = {})
      : norm_type(norm_type), kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return lp_pool1d(x, norm_type, kernel_size, options); }
};

struct AdaptiveAvgPool1d : Module {
  std::int64_t output_size;
  explicit AdaptiveAvgPool1d(std::int64_t output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool1d(x, output_size); }
};

struct AdaptiveMaxPool1d : Module {
  std::int64_t output_size;
  explicit AdaptiveMaxPool1d(std::int64_t output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_max_pool1d(x, output_size); }
};

struct MaxPool3d : Module {
  Pool3dOptions::Triple kernel_size;
  Pool3dOptions options;
  explicit MaxPool3d(Pool3dOptions::Triple kernel_size, Pool3dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return max_pool3d(x, kernel_size, options); }
};

struct AvgPool3d : Module {
  Pool3dOptions::Triple kernel_size;
  Pool3dOptions options;
  explicit AvgPool3d(Pool3dOptions::Triple kernel_size, Pool3dOptions options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return avg_pool3d(x, kernel_size, options); }
};

struct AdaptiveAvgPool3d : Module {
  Pool3dOptions::Triple output_size;
  explicit AdaptiveAvgPool3d(Pool3dOptions::Triple output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool3d(x, output_size); }
};

struct AdaptiveMaxPool3d : Module {
  Pool3dOptions::Triple output_size;
  explicit AdaptiveMaxPool3d(Pool3dOptions::Triple output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return adaptive_max_pool3d(x, output_size); }
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
