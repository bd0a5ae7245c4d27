#pragma once
// The base of the convolution layers: Conv1d, Conv2d, Conv3d and their transposes differ in the
// number of dimensions of an image only. The arithmetic is in autograd/ops/conv.h.

#include <string>

#include "autograd/ops/conv.h"
#include "autograd/ops/pad.h"
#include "nn/module.h"
#include "nn/sizes.h"

namespace rondo::nn {

namespace detail {

/// A convolution layer in any number of dimensions. Lists have one number for each dimension.
struct ConvLayer {
  std::int64_t in_channels, out_channels, groups;
  Dims kernel, stride, padding, dilation;
  bool has_bias;
  Dims output_padding = {};  // of a transposed one
  bool same_padding = false;
  PadMode padding_mode = PadMode::constant;

  bool is_transposed() const { return !output_padding.empty(); }
  /// Throws ShapeError for options that no input fits; the message begins with `layer`.
  void check(const char* layer) const;
  /// The padding around x, the last dimension first; empty if the convolution can pad by itself. It
  /// cannot if the mode is not constant, or if same_padding needs one element more on the right.
  /// Sets the padding that is left for the convolution.
  Dims take_outer_padding(const char* layer);
  /// New parameters, with PyTorch's initial values.
  Tensor drawn_weight() const;
  Tensor drawn_bias(const Tensor& weight) const;
  /// The output padding with which y of an image of size `input` has the size `output`, which may
  /// begin with N and C.
  Dims output_padding_for(const Module& layer, const Dims& input, Dims output) const;
  std::string text() const;
};

/// Throws ShapeError unless x is an image of so many dimensions and channels, with a batch or
/// without.
void check_image(const Module& layer, const Tensor& x, std::int64_t channels, std::int64_t dims);

}  // namespace detail

/// Size is std::int64_t, Pair or Triple.
template <class Size, class Options>
struct ConvNd : Module {
  std::int64_t in_channels, out_channels;
  Size kernel_size;
  Options options;
  Dims outer_padding;  // what `pad` adds first, because the convolution cannot
  Tensor weight, bias;

  std::string extra_repr() const override {
    detail::ConvLayer c = described();
    c.has_bias = bias.defined();
    for (std::int64_t i = 0, sides = outer_padding.size(); i < sides / 2; ++i)
      c.padding[i] = outer_padding[sides - 2 - 2 * i];  // which begins with the last dimension
    return c.text();
  }
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
  std::int64_t multiply_adds(const Tensor& x, const Tensor& y) const override {
    return is_transposed ? x.numel() * (weight.numel() / in_channels)
                         : y.numel() * (weight.numel() / out_channels);
  }
  /// x with outer_padding. Throws ShapeError unless x fits the layer.
  Tensor padded(const Tensor& x) const {
    detail::check_image(*this, x, in_channels, detail::dims_of(kernel_size).size());
    if constexpr (!is_transposed) {
      if (!outer_padding.empty()) return pad(x, outer_padding, options.padding_mode);
    }
    return x;
  }

 protected:
  static constexpr bool is_transposed = requires(Options o) { o.output_padding; };

  ConvNd(const char* layer, std::int64_t in_channels, std::int64_t out_channels, Size kernel_size,
         Options options)
      : in_channels(in_channels),
        out_channels(out_channels),
        kernel_size(kernel_size),
        options(options) {
    detail::ConvLayer c = described();
    c.check(layer);
    if (!is_transposed) {
      outer_padding = c.take_outer_padding(layer);
      this->options.padding = detail::size_of<Size>(c.padding);
    }
    weight = c.drawn_weight();
    if (options.bias) bias = c.drawn_bias(weight);
  }

  detail::ConvLayer described() const {
    detail::ConvLayer c{.in_channels = in_channels,
                        .out_channels = out_channels,
                        .groups = options.groups,
                        .kernel = detail::dims_of(kernel_size),
                        .stride = detail::dims_of(options.stride),
                        .padding = detail::dims_of(options.padding),
                        .dilation = detail::dims_of(options.dilation),
                        .has_bias = options.bias};
    if constexpr (is_transposed) {
      c.output_padding = detail::dims_of(options.output_padding);
    } else {
      c.same_padding = options.same_padding;
      c.padding_mode = options.padding_mode;
    }
    return c;
  }
};

/// The base of the transposed convolutions. `op` is conv_transpose1d, 2d or 3d.
template <class Size, class Options, auto op>
struct ConvTransposeNd : ConvNd<Size, Options> {
  Tensor forward(const Tensor& x) override { return run(x, this->options.output_padding); }
  using Module::operator();
  /// y has this size, and options.output_padding does not count. `output_size` has one number for
  /// each dimension of the image, and may begin with N and C. Throws ShapeError for a size that no
  /// output padding smaller than the stride gives.
  Tensor operator()(const Tensor& x, const Dims& output_size) {
    return this->call(
        [&](const Tensor& in) {
          const Dims more =
              this->described().output_padding_for(*this, this->padded(in).shape(), output_size);
          return run(in, detail::size_of<Size>(more));
        },
        x);
  }

 protected:
  using ConvNd<Size, Options>::ConvNd;

 private:
  Tensor run(const Tensor& x, Size output_padding) const {
    return op(this->padded(x), this->weight, this->bias,
              {.stride = this->options.stride,
               .padding = this->options.padding,
               .output_padding = output_padding,
               .groups = this->options.groups,
               .dilation = this->options.dilation});
  }
};

}  // namespace rondo::nn
