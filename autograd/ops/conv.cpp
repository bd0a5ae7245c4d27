#include "autograd/ops/conv.h"

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
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

struct ConvNode : Node {
  SavedTensor first, second;
  Dims first_shape, second_shape;
  MemoryFormat second_format;  // a weight's gradient has the layout of the weight
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
        wants(0) ? input_gradient(dy[0], second.get(*this), first_shape, params) : Tensor(),
        wants(1) ? weight_gradient(dy[0], first.get(*this), second_shape, second_format, params)
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
    return {wants(0) ? conv(g[0], second.get(*this), {}, params) : Tensor(),
            wants(1) ? weight_gradient(first.get(*this), g[0], second_shape, second_format, params)
                     : Tensor()};
  }
};

struct Conv2dWeightGradientBackward final : ConvNode {  // inputs: dy, x
  using ConvNode::ConvNode;
  const char* name() const override { return "conv2d_backward_weight"; }
  Tensors backward(const Tensors& g) override {
    return {wants(0) ? conv(second.get(*this), g[0], {}, params) : Tensor(),
            wants(1) ? input_gradient(first.get(*this), g[0], second_shape, params) : Tensor()};
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
  return bias.defined() ? record<Conv2dBackward>({x, w, bias}, y, x, w, o)
                        : record<Conv2dBackward>({x, w}, y, x, w, o);
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

void check(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dParams& o) {
  require<ShapeError>(x.dim() == 4 && w.dim() == 4, "conv2d: input ", x.shape(), " and weight ",
                      w.shape(), " must both have 4 dimensions");
  require<ShapeError>(o.groups >= 1 && w.size(0) % o.groups == 0, "conv2d: ", w.size(0),
                      " output channels do not divide into ", o.groups, " groups");
  const std::int64_t channels = (CheckedSize(w.size(1), "conv2d") * o.groups).value();
  require<ShapeError>(x.size(1) == channels, "conv2d: input ", x.shape(), " has ", x.size(1),
                      " channels, but weight ", w.shape(), " with ", o.groups, " groups expects ",
                      channels);
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == w.size(0)),
                      "conv2d: bias ", bias.defined() ? bias.shape() : Dims{}, " for ", w.size(0),
                      " output channels");
  require<ShapeError>(o.stride_h > 0 && o.stride_w > 0 && o.dilation_h > 0 && o.dilation_w > 0 &&
                          o.pad_h >= 0 && o.pad_w >= 0,
                      "conv2d: stride and dilation must be positive, padding not negative");
  require<ShapeError>(
      w.size(2) > 0 && w.size(3) > 0 && output_height(x, w, o) > 0 && output_width(x, w, o) > 0,
      "conv2d: the kernel of weight ", w.shape(), " is larger than the padded input ", x.shape());
  require<DTypeError>(is_floating(x.dtype()) && x.dtype() == w.dtype() &&
                          (!bias.defined() || bias.dtype() == x.dtype()),
                      "conv2d: input of ", x.dtype(), ", weight of ", w.dtype(),
                      how_to_convert(x.dtype(), w.dtype()));
  require_one_device("conv2d", {x, w, bias});
}

void check_transposed(const Tensor& x, const Tensor& w, const Tensor& bias,
                      const ConvTranspose2dOptions& o) {
  const char* op = "conv_transpose2d";
  require<ShapeError>(x.dim() == 4 && w.dim() == 4, op, ": input ", x.shape(), " and weight ",
                      w.shape(), " must both have 4 dimensions");
  require<ShapeError>(o.groups >= 1 && w.size(0) % o.groups == 0, op, ": ", w.size(0),
                      " input channels do not divide into ", o.groups, " groups");
  require<ShapeError>(x.size(1) == w.size(0), op, ": input ", x.shape(), " has ", x.size(1),
                      " channels, but weight ", w.shape(), " expects ", w.size(0));
  const std::int64_t channels = (CheckedSize(w.size(1), op) * o.groups).value();
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == channels), op,
                      ": bias ", bias.defined() ? bias.shape() : Dims{}, " for ", channels,
                      " output channels");
  require<ShapeError>(o.stride.h > 0 && o.stride.w > 0 && o.dilation.h > 0 && o.dilation.w > 0 &&
                          o.padding.h >= 0 && o.padding.w >= 0,
                      op, ": stride and dilation must be positive, padding not negative");
  require<ShapeError>(
      o.output_padding.h >= 0 && o.output_padding.h < std::max(o.stride.h, o.dilation.h) &&
          o.output_padding.w >= 0 && o.output_padding.w < std::max(o.stride.w, o.dilation.w),
      op, ": output padding ", o.output_padding.h, " x ", o.output_padding.w,
      " must be smaller than stride or dilation");
  require<DTypeError>(is_floating(x.dtype()) && x.dtype() == w.dtype() &&
                          (!bias.defined() || bias.dtype() == x.dtype()),
                      op, ": input of ", x.dtype(), ", weight of ", w.dtype(),
                      how_to_convert(x.dtype(), w.dtype()));
  require_one_device(op, {x, w, bias});
}

/// x with `rows` rows of zeros appended along dim.
Tensor lengthened(const Tensor& x, std::int64_t dim, std::int64_t rows) {
  if (rows == 0) return x;
  Dims sizes = x.shape();
  sizes[dim] = rows;
  return cat({x, zeros(sizes, x.options())}, dim);
}

}  // namespace

std::int64_t conv_output_size(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                              std::int64_t padding, std::int64_t dilation) {
  const CheckedSize one(1, "convolution");
  const std::int64_t room =
      (one * input + one * 2 * padding - one * dilation * (kernel - 1) - 1).value();
  return room < 0 ? 0 : room / stride + 1;
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv2dOptions options) {
  const RecordOp op("conv2d");
  if (const Casts cast{AutocastOp::conv2d, x}) return conv2d(cast(x), cast(w), cast(bias), options);
  Conv2dParams params{.stride_h = options.stride.h,
                      .stride_w = options.stride.w,
                      .pad_h = options.padding.h,
                      .pad_w = options.padding.w,
                      .dilation_h = options.dilation.h,
                      .dilation_w = options.dilation.w,
                      .groups = options.groups};
  check(x, w, bias, params);
  // The dilation of a kernel with one element has no effect, however large it is.
  if (w.size(2) == 1) params.dilation_h = 1;
  if (w.size(3) == 1) params.dilation_w = 1;
  return conv(x, w, bias, params);
}

Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv1dOptions options) {
  const RecordOp op("conv1d");
  require<ShapeError>(x.dim() == 3 && w.dim() == 3, "conv1d: input ", x.shape(), " and weight ",
                      w.shape(), " must both have 3 dimensions");
  const std::int64_t channels = (CheckedSize(w.size(1), "conv1d") * options.groups).value();
  require<ShapeError>(x.size(1) == channels, "conv1d: input ", x.shape(), " has ", x.size(1),
                      " channels, but weight ", w.shape(), " with ", options.groups,
                      " groups expects ", channels);
  const Tensor y = conv2d(unsqueeze(x, 2), unsqueeze(w, 2), bias,
                          {.stride = {1, options.stride},
                           .padding = {0, options.padding},
                           .dilation = {1, options.dilation},
                           .groups = options.groups});
  return squeeze(y, 2);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& bias,
                        ConvTranspose2dOptions options) {
  const RecordOp op("conv_transpose2d");
  if (const Casts cast{AutocastOp::conv_transpose2d, x})
    return conv_transpose2d(cast(x), cast(w), cast(bias), options);
  check_transposed(x, w, bias, options);
  const auto& [stride, padding, more, groups, dilation] = options;
  const auto length = [](std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation, std::int64_t more) {
    const CheckedSize one(1, "conv_transpose2d");
    return (one * stride * (in - 1) - one * 2 * padding + one * dilation * (kernel - 1) + more + 1)
        .value();
  };
  const Dims sizes = {x.size(0), w.size(1) * groups,
                      length(x.size(2), w.size(2), stride.h, padding.h, dilation.h, more.h),
                      length(x.size(3), w.size(3), stride.w, padding.w, dilation.w, more.w)};
  require<ShapeError>(x.size(2) > 0 && x.size(3) > 0 && w.size(2) > 0 && w.size(3) > 0 &&
                          sizes[2] > 0 && sizes[3] > 0,
                      "conv_transpose2d: input ", x.shape(), " and weight ", w.shape(),
                      " give an empty output ", sizes);
  // y is the input of a convolution whose output has x's shape. If output_padding is at least one
  // stride, that output has additional rows after x's; their gradient is zero.
  const Tensor below = lengthened(lengthened(x, 2, more.h / stride.h), 3, more.w / stride.w);
  const Tensor y = input_gradient(below, w, sizes,
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
