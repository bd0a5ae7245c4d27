#pragma once
// Pooling and upsampling as modules. They change the size of the image and have no parameters.
// Formulas, options and errors are in autograd/ops/pool.h and interpolate.h.

#include <optional>
#include <string>
#include <vector>

#include "autograd/ops/interpolate.h"
#include "autograd/ops/pool.h"
#include "nn/module.h"
#include "nn/sizes.h"

namespace rondo::nn {

namespace detail {
std::string max_pool_text(const Dims& kernel, const Dims& stride, const Dims& padding,
                          const Dims& dilation, bool ceil_mode);
std::string avg_pool_text(const Dims& kernel, const Dims& stride, const Dims& padding);
std::string lp_pool_text(double norm_type, const Dims& kernel, const Dims& stride, bool ceil_mode);
std::string adaptive_pool_text(const Dims& output_size);
std::string unpool_text(const Dims& kernel, const Dims& stride, const Dims& padding);
}  // namespace detail

/// Size is std::int64_t, Pair or Triple; `pool` and `pool_with_indices` are functions of pool.h.
template <class Size, class Options, auto pool, auto pool_with_indices>
struct MaxPoolOf : Module {
  Size kernel_size;
  Options options;
  explicit MaxPoolOf(Size kernel_size, Options options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return pool(x, kernel_size, options); }
  /// The result, and the positions for MaxUnpool (PyTorch: return_indices=True).
  ValuesAndIndices with_indices(const Tensor& x) {
    return call([this](const Tensor& in) { return pool_with_indices(in, kernel_size, options); },
                x);
  }
  std::string extra_repr() const override {
    return detail::max_pool_text(detail::dims_of(kernel_size), detail::dims_of(options.stride),
                                 detail::dims_of(options.padding),
                                 detail::dims_of(options.dilation), options.ceil_mode);
  }
};

template <class Size, class Options, auto pool>
struct AvgPoolOf : Module {
  Size kernel_size;
  Options options;
  explicit AvgPoolOf(Size kernel_size, Options options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return pool(x, kernel_size, options); }
  std::string extra_repr() const override {
    return detail::avg_pool_text(detail::dims_of(kernel_size), detail::dims_of(options.stride),
                                 detail::dims_of(options.padding));
  }
};

template <class Size, class Options, auto pool>
struct LPPoolOf : Module {
  double norm_type;
  Size kernel_size;
  Options options;
  LPPoolOf(double norm_type, Size kernel_size, Options options = {})
      : norm_type(norm_type), kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override { return pool(x, norm_type, kernel_size, options); }
  std::string extra_repr() const override {
    return detail::lp_pool_text(norm_type, detail::dims_of(kernel_size),
                                detail::dims_of(options.stride), options.ceil_mode);
  }
};

template <class Size, auto pool>
struct AdaptivePoolOf : Module {
  Size output_size;
  explicit AdaptivePoolOf(Size output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override { return pool(x, output_size); }
  std::string extra_repr() const override {
    return detail::adaptive_pool_text(detail::dims_of(output_size));
  }
};

template <class Size, auto pool, auto pool_with_indices>
struct AdaptiveMaxPoolOf : AdaptivePoolOf<Size, pool> {
  using AdaptivePoolOf<Size, pool>::AdaptivePoolOf;
  /// As MaxPoolOf::with_indices.
  ValuesAndIndices with_indices(const Tensor& x) {
    return this->call([this](const Tensor& in) { return pool_with_indices(in, this->output_size); },
                      x);
  }
};

/// The inverse of a max pooling: `unpool(y, indices)`, with the indices of `with_indices`.
template <class Size, class Options, auto unpool>
struct MaxUnpoolOf : Module {
  Size kernel_size;
  Options options;
  explicit MaxUnpoolOf(Size kernel_size, Options options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor&) override {
    throw Error(concat(detail::type_name(*this),
                       ": it needs the indices of a max pooling; call it with (x, indices)"));
  }
  using Module::operator();
  /// `output_size` replaces the one of the options.
  Tensor operator()(const Tensor& x, const Tensor& indices, std::optional<Size> output_size = {}) {
    Options o = options;
    if (output_size) o.output_size = output_size;
    return call(
        [&](const Tensor& in, const Tensor& where) { return unpool(in, where, kernel_size, o); }, x,
        indices);
  }
  std::string extra_repr() const override {
    return detail::unpool_text(detail::dims_of(kernel_size), detail::dims_of(options.stride),
                               detail::dims_of(options.padding));
  }
};

/// nn::MaxPool2d pool(3, {.stride = 2, .padding = 1});
struct MaxPool1d : MaxPoolOf<std::int64_t, Pool1dOptions, max_pool1d, max_pool1d_with_indices> {
  using MaxPoolOf::MaxPoolOf;
};
struct MaxPool2d : MaxPoolOf<Pair, Pool2dOptions, max_pool2d, max_pool2d_with_indices> {
  using MaxPoolOf::MaxPoolOf;
};
struct MaxPool3d : MaxPoolOf<Triple, Pool3dOptions, max_pool3d, max_pool3d_with_indices> {
  using MaxPoolOf::MaxPoolOf;
};

struct AvgPool1d : AvgPoolOf<std::int64_t, Pool1dOptions, avg_pool1d> {
  using AvgPoolOf::AvgPoolOf;
};
struct AvgPool2d : AvgPoolOf<Pair, Pool2dOptions, avg_pool2d> {
  using AvgPoolOf::AvgPoolOf;
};
struct AvgPool3d : AvgPoolOf<Triple, Pool3dOptions, avg_pool3d> {
  using AvgPoolOf::AvgPoolOf;
};

struct LPPool1d : LPPoolOf<std::int64_t, Pool1dOptions, lp_pool1d> {
  using LPPoolOf::LPPoolOf;
};
struct LPPool2d : LPPoolOf<Pair, Pool2dOptions, lp_pool2d> {
  using LPPoolOf::LPPoolOf;
};
struct LPPool3d : LPPoolOf<Triple, Pool3dOptions, lp_pool3d> {
  using LPPoolOf::LPPoolOf;
};

/// AdaptiveAvgPool2d(1) is the mean of each plane, as at the end of a ResNet.
struct AdaptiveAvgPool1d : AdaptivePoolOf<std::int64_t, adaptive_avg_pool1d> {
  using AdaptivePoolOf::AdaptivePoolOf;
};
struct AdaptiveAvgPool2d : AdaptivePoolOf<Pair, adaptive_avg_pool2d> {
  using AdaptivePoolOf::AdaptivePoolOf;
};
struct AdaptiveAvgPool3d : AdaptivePoolOf<Triple, adaptive_avg_pool3d> {
  using AdaptivePoolOf::AdaptivePoolOf;
};
struct AdaptiveMaxPool1d
    : AdaptiveMaxPoolOf<std::int64_t, adaptive_max_pool1d, adaptive_max_pool1d_with_indices> {
  using AdaptiveMaxPoolOf::AdaptiveMaxPoolOf;
};
struct AdaptiveMaxPool2d
    : AdaptiveMaxPoolOf<Pair, adaptive_max_pool2d, adaptive_max_pool2d_with_indices> {
  using AdaptiveMaxPoolOf::AdaptiveMaxPoolOf;
};
struct AdaptiveMaxPool3d
    : AdaptiveMaxPoolOf<Triple, adaptive_max_pool3d, adaptive_max_pool3d_with_indices> {
  using AdaptiveMaxPoolOf::AdaptiveMaxPoolOf;
};

struct MaxUnpool1d : MaxUnpoolOf<std::int64_t, MaxUnpool1dOptions, max_unpool1d> {
  using MaxUnpoolOf::MaxUnpoolOf;
};
struct MaxUnpool2d : MaxUnpoolOf<Pair, MaxUnpool2dOptions, max_unpool2d> {
  using MaxUnpoolOf::MaxUnpoolOf;
};
struct MaxUnpool3d : MaxUnpoolOf<Triple, MaxUnpool3dOptions, max_unpool3d> {
  using MaxUnpoolOf::MaxUnpoolOf;
};

/// As InterpolateOptions, with a text of its own.
struct UpsampleOptions {
  Dims size = {};
  ScaleFactors scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false;
};

/// Resizes images: nn::Upsample({.scale_factor = {2}, .mode = "bilinear"}). Throws Error unless
/// either a size or a factor is given. Agrees with torch.nn.Upsample.
struct Upsample : Module {
  UpsampleOptions options;
  explicit Upsample(UpsampleOptions options);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
};
struct UpsamplingSize {
  Dims size = {};
  ScaleFactors scale_factor = {};
};
struct UpsamplingNearest2d : Upsample {
  explicit UpsamplingNearest2d(const UpsamplingSize& to)
      : Upsample({.size = to.size, .scale_factor = to.scale_factor}) {}
};
struct UpsamplingBilinear2d : Upsample {
  explicit UpsamplingBilinear2d(const UpsamplingSize& to)
      : Upsample({.size = to.size,
                  .scale_factor = to.scale_factor,
                  .mode = "bilinear",
                  .align_corners = true}) {}
};

}  // namespace rondo::nn
