#include "autograd/ops/conv.h"

#include "autograd/autocast.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "tensor/backend.h"

namespace rondo {
namespace {

// conv(x, w), input_gradient(dy, w), weight_gradient(dy, x): each is linear in both arguments, and
// <conv(x, w), dy> = <x, input_gradient(dy, w)> = <w, weight_gradient(dy, x)>. Differentiating any
// of the three therefore gives the other two, which is all that the three nodes below say.
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dParams& params);
Tensor input_gradient(const Tensor& dy, const Tensor& w, const Dims& x_shape,
                      const Conv2dParams& params);
Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Dims& w_shape, MemoryFormat format,
                       const Conv2dParams& params);

/// Saves an operand only if the other one wants a gradient.
SavedTensor save_for(const Tensor& other, const Tensor& x) {
  return SavedTensor(other.requires_grad() ? x : Tensor());
}

struct ConvNode : Node {
  SavedTensor first, second;
  Dims first_shape, second_shape;
  MemoryFormat second_format;  // a weight's gradient lies as the weight does
  Conv2dParams params;
  ConvNode(const Tensor& first, const Tensor& second, const Conv2dParams& params)
      : first(save_for(second, first)),
        second(save_for(first, second)),
        first_shape(first.shape()),
        second_shape(second.shape()),
        second_format(second.suggested_format()),
        params(params) {}
  void release_saved() override {
    first.reset();
    second.reset();
  }
};

struct Conv2dBackward final : ConvNode {
  using ConvNode::ConvNode;
  const char* name() const override { return "conv2d"; }
  Tensors backward(const Tensors& dy) override {
    Tensors gradients = {
        wants(0) ? input_gradient(dy[0], second.get(*this), first_shape, params) : Tensor(),
        wants(1) ? weight_gradient(dy[0], first.get(*this), second_shape, second_format, params)
                 : Tensor()};
    if (edges.size() > 2) gradients.push_back(wants(2) ? sum(dy[0], {0, 2, 3}) : Tensor());
    return gradients;
  }
};

struct Conv2dInputGradientBackward final : ConvNode {  // of (dy, w)
  using ConvNode::ConvNode;
  const char* name() const override { return "conv2d_backward_input"; }
  Tensors backward(const Tensors& g) override {
    return {wants(0) ? conv(g[0], second.get(*this), {}, params) : Tensor(),
            wants(1) ? weight_gradient(first.get(*this), g[0], second_shape, second_format, params)
                     : Tensor()};
  }
};

struct Conv2dWeightGradientBackward final : ConvNode {  // of (dy, x)
  using ConvNode::ConvNode;
  const char* name() const override { return "conv2d_backward_weight"; }
  Tensors backward(const Tensors& g) override {
    return {wants(0) ? conv(second.get(*this), g[0], {}, params) : Tensor(),
            wants(1) ? input_gradient(first.get(*this), g[0], second_shape, params) : Tensor()};
  }
};

std::int64_t output_size(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation) {
  std::int64_t room = input + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dParams& o) {
  Dims sizes = {x.size(0), w.size(0),
                output_size(x.size(2), w.size(2), o.stride_h, o.pad_h, o.dilation_h),
                output_size(x.size(3), w.size(3), o.stride_w, o.pad_w, o.dilation_w)};
  Backend& device = backend(x);
  Tensor y = Tensor::empty(
      sizes, {.dtype = x.dtype(), .device = x.device(), .format = device.conv2d_format(x.dtype())});
  device.conv2d(x, w, bias, y, o);
  return bias.defined() ? record<Conv2dBackward>({x, w, bias}, y, x, w, o)
                        : record<Conv2dBackward>({x, w}, y, x, w, o);
}

Tensor input_gradient(const Tensor& dy, const Tensor& w, const Dims& x_shape,
                      const Conv2dParams& o) {
  Backend& device = backend(dy);
  Tensor dx = Tensor::empty(
      x_shape,
      {.dtype = dy.dtype(), .device = dy.device(), .format = device.conv2d_format(dy.dtype())});
  device.conv2d_backward_input(dy, w, dx, o);
  return record<Conv2dInputGradientBackward>({dy, w}, dx, dy, w, o);
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Dims& w_shape, MemoryFormat format,
                       const Conv2dParams& o) {
  Tensor dw =
      Tensor::empty(w_shape, {.dtype = dy.dtype(), .device = dy.device(), .format = format});
  backend(dy).conv2d_backward_weight(dy, x, dw, {}, o);
  return record<Conv2dWeightGradientBackward>({dy, x}, dw, dy, x, o);
}

void check(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dParams& o) {
  require<ShapeError>(x.dim() == 4 && w.dim() == 4, "conv2d: input ", x.shape(), " and weight ",
                      w.shape(), " must both have 4 dimensions");
  require<ShapeError>(o.groups >= 1 && w.size(0) % o.groups == 0, "conv2d: ", w.size(0),
                      " output channels do not divide into ", o.groups, " groups");
  require<ShapeError>(x.size(1) == w.size(1) * o.groups, "conv2d: input ", x.shape(), " has ",
                      x.size(1), " channels, weight ", w.shape(), " with ", o.groups,
                      " groups wants ", w.size(1) * o.groups);
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == w.size(0)),
                      "conv2d: bias ", bias.defined() ? bias.shape() : Dims{}, " for ", w.size(0),
                      " output channels");
  require<ShapeError>(o.stride_h > 0 && o.stride_w > 0 && o.dilation_h > 0 && o.dilation_w > 0 &&
                          o.pad_h >= 0 && o.pad_w >= 0,
                      "conv2d: stride and dilation must be positive, padding not negative");
  require<ShapeError>(w.size(2) > 0 && w.size(3) > 0 &&
                          x.size(2) + 2 * o.pad_h >= o.dilation_h * (w.size(2) - 1) + 1 &&
                          x.size(3) + 2 * o.pad_w >= o.dilation_w * (w.size(3) - 1) + 1,
                      "conv2d: the kernel of weight ", w.shape(),
                      " is larger than the padded input ", x.shape());
  require<DTypeError>(is_floating(x.dtype()) && x.dtype() == w.dtype() &&
                          (!bias.defined() || bias.dtype() == x.dtype()),
                      "conv2d: input of ", x.dtype(), ", weight of ", w.dtype());
  require_one_device("conv2d", {x, w, bias});
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv2dOptions options) {
  if (const Casts cast{AutocastOp::conv2d, x}) return conv2d(cast(x), cast(w), cast(bias), options);
  Conv2dParams params{.stride_h = options.stride.h,
                      .stride_w = options.stride.w,
                      .pad_h = options.padding.h,
                      .pad_w = options.padding.w,
                      .dilation_h = options.dilation.h,
                      .dilation_w = options.dilation.w,
                      .groups = options.groups};
  check(x, w, bias, params);
  return conv(x, w, bias, params);
}

}  // namespace rondo
