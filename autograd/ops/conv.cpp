#include "autograd/ops/conv.h"

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/fused.h"
#include "autograd/ops/image_dims.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

// conv(x, w), input_gradient(dy, w), weight_gradient(dy, x): each is linear in both arguments, and
// <conv(x, w), dy> = <x, input_gradient(dy, w)> = <w, weight_gradient(dy, x)>. So the derivatives
// of each of the three are the other two; the three nodes below state this.
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dParams& params);
Tensor input_gradient(const Tensor& dy, const Tensor& w, const Dims& x_shape,
                      const Conv2dParams& params, const char* op = "conv2d_backward_input");
Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Dims& w_shape, MemoryFormat format,
                       const Conv2dParams& params);

/// Saves an operand only if the other one requires a gradient.
SavedTensor save_for(const Tensor& other, const Tensor& x) {
  return SavedTensor(other.requires_grad() ? x : Tensor());
}

/// lhs and rhs: the two arguments in which the op is linear.
struct ConvNode : Node {
  SavedTensor lhs, rhs;
  Dims lhs_shape, rhs_shape;
  MemoryFormat rhs_format;  // a weight's gradient has the layout of the weight
  Conv2dParams params;
  ConvNode(const Tensor& lhs, const Tensor& rhs, const Conv2dParams& params)
      : lhs(save_for(rhs, lhs)),
        rhs(save_for(lhs, rhs)),
        lhs_shape(lhs.shape()),
        rhs_shape(rhs.shape()),
        rhs_format(rhs.suggested_format()),
        params(params) {}
  void release_saved() override {
    lhs.reset();
    rhs.reset();
  }
  void attributes(AttributeVisitor& v) override {
    v.integers("stride", {params.stride_h, params.stride_w});
    v.integers("padding", {params.pad_h, params.pad_w});
    v.integers("dilation", {params.dilation_h, params.dilation_w});
    v.integer("groups", params.groups);
  }
};

struct Conv2dBackward final : ConvNode {
  using ConvNode::ConvNode;
  const char* name() const override { return "conv2d"; }
  Tensors backward(const Tensors& dy) override {
    Tensors gradients = {
        wants(0) ? input_gradient(dy[0], rhs.get(*this), lhs_shape, params) : Tensor(),
        wants(1) ? weight_gradient(dy[0], lhs.get(*this), rhs_shape, rhs_format, params)
                 : Tensor()};
    if (edges.size() > 2) gradients.push_back(wants(2) ? sum(dy[0], {0, 2, 3}) : Tensor());
    return gradients;
  }
};

struct Conv2dInputGradientBackward final : ConvNode {  // inputs: dy, w
  const char* op;
  Conv2dInputGradientBackward(const Tensor& dy, const Tensor& w, const Conv2dParams& params,
                              const char* op)
      : ConvNode(dy, w, params), op(op) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& g) override {
    return {
        wants(0) ? conv(g[0], rhs.get(*this), {}, params) : Tensor(),
        wants(1) ? weight_gradient(lhs.get(*this), g[0], rhs_shape, rhs_format, params) : Tensor()};
  }
};

struct Conv2dWeightGradientBackward final : ConvNode {  // inputs: dy, x
  using ConvNode::ConvNode;
  const char* name() const override { return "conv2d_backward_weight"; }
  Tensors backward(const Tensors& g) override {
    return {wants(0) ? conv(rhs.get(*this), g[0], {}, params) : Tensor(),
            wants(1) ? input_gradient(lhs.get(*this), g[0], rhs_shape, params) : Tensor()};
  }
};

std::int64_t output_height(const Tensor& x, const Tensor& w, const Conv2dParams& o) {
  return conv_output_size(x.size(2), w.size(2), o.stride_h, o.pad_h, o.dilation_h);
}
std::int64_t output_width(const Tensor& x, const Tensor& w, const Conv2dParams& o) {
  return conv_output_size(x.size(3), w.size(3), o.stride_w, o.pad_w, o.dilation_w);
}

Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dParams& o) {
  Dims sizes = {x.size(0), w.size(0), output_height(x, w, o), output_width(x, w, o)};
  Backend& device = backend(x);
  Tensor y = Tensor::empty(
      sizes, {.dtype = x.dtype(), .device = x.device(), .format = device.conv2d_format(x.dtype())});
  device.conv2d(x, w, bias, y, o);
  const Conv2dParams linear = without_activation(o);
  return bias.defined() ? record<Conv2dBackward>({x, w, bias}, y, x, w, linear)
                        : record<Conv2dBackward>({x, w}, y, x, w, linear);
}

Tensor input_gradient(const Tensor& dy, const Tensor& w, const Dims& x_shape, const Conv2dParams& o,
                      const char* op) {
  Backend& device = backend(dy);
  Tensor dx = Tensor::empty(
      x_shape,
      {.dtype = dy.dtype(), .device = dy.device(), .format = device.conv2d_format(dy.dtype())});
  device.conv2d_backward_input(dy, w, dx, o);
  return record<Conv2dInputGradientBackward>({dy, w}, dx, dy, w, o, op);
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Dims& w_shape, MemoryFormat format,
                       const Conv2dParams& o) {
  Tensor dw =
      Tensor::empty(w_shape, {.dtype = dy.dtype(), .device = dy.device(), .format = format});
  backend(dy).conv2d_backward_weight(dy, x, dw, {}, o);
  return record<Conv2dWeightGradientBackward>({dy, x}, dw, dy, x, o);
}

/// x with `rows` rows of zeros appended along dim.
Tensor lengthened(const Tensor& x, std::int64_t dim, std::int64_t rows) {
  if (rows == 0) return x;
  Dims sizes = x.shape();
  sizes[dim] = rows;
  return cat({x, zeros(sizes, x.options())}, dim);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv2dOptions options,
              Activation activation) {
  const OpRange op("conv2d");
  if (x.dim() == 3 && w.dim() == 4)
    return squeeze(conv2d(unsqueeze(x, 0), w, bias, options, activation), 0);
  if (const Casts cast{AutocastOp::conv2d, x})
    return conv2d(cast(x), cast(w), cast(bias), options, activation);
  Conv2dParams params{.stride_h = options.stride.h,
                      .stride_w = options.stride.w,
                      .pad_h = options.padding.h,
                      .pad_w = options.padding.w,
                      .dilation_h = options.dilation.h,
                      .dilation_w = options.dilation.w,
                      .groups = options.groups};
  detail::conv_sizes("conv2d", x, w, bias,
                     {.stride = detail::dims_of(options.stride),
                      .padding = detail::dims_of(options.padding),
                      .dilation = detail::dims_of(options.dilation),
                      .groups = options.groups});
  // The dilation of a kernel with one element has no effect, however large it is.
  if (w.size(2) == 1) params.dilation_h = 1;
  if (w.size(3) == 1) params.dilation_w = 1;
  // gelu's gradient needs its input, which the fused convolution does not keep.
  const bool gelu_later = activation == Activation::gelu_tanh &&
                          any_requires_grad(std::initializer_list<Tensor>{x, w, bias});
  params.activation = gelu_later ? Activation::none : activation;
  const Tensor y = conv(x, w, bias, params);
  if (activation == Activation::relu) return behind_relu(y);
  return gelu_later ? detail::activated(y, activation) : y;
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& bias,
                        ConvTranspose2dOptions options) {
  const OpRange op("conv_transpose2d");
  if (x.dim() == 3 && w.dim() == 4)
    return squeeze(conv_transpose2d(unsqueeze(x, 0), w, bias, options), 0);
  if (const Casts cast{AutocastOp::conv_transpose2d, x})
    return conv_transpose2d(cast(x), cast(w), cast(bias), options);
  const auto& [stride, padding, more, groups, dilation] = options;
  const Dims plane = detail::conv_transpose_sizes("conv_transpose2d", x, w, bias,
                                                  {.stride = detail::dims_of(stride),
                                                   .padding = detail::dims_of(padding),
                                                   .dilation = detail::dims_of(dilation),
                                                   .groups = groups,
                                                   .output_padding = detail::dims_of(more)});
  // y is the input of a convolution whose output has x's shape. If output_padding is at least one
  // stride, that output has additional rows after x's; their gradient is zero.
  const Tensor below = lengthened(lengthened(x, 2, more.h / stride.h), 3, more.w / stride.w);
  const Tensor y = input_gradient(below, w, {x.size(0), w.size(1) * groups, plane[0], plane[1]},
                                  {.stride_h = stride.h,
                                   .stride_w = stride.w,
                                   .pad_h = padding.h,
                                   .pad_w = padding.w,
                                   .dilation_h = dilation.h,
                                   .dilation_w = dilation.w,
                                   .groups = groups},
                                  "conv_transpose2d");
  return bias.defined() ? y + reshape(bias, {1, bias.size(0), 1, 1}) : y;
}

}  // namespace rondo
