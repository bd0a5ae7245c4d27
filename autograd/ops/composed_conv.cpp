// Convolutions in one and three dimensions, which are composed of conv2d and conv_transpose2d (see
// conv.h), and the checks of all convolutions.

#include <algorithm>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/image_dims.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

std::int64_t conv_output_size(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                              std::int64_t padding, std::int64_t dilation) {
  const CheckedSize one(1, "convolution");
  const std::int64_t room =
      (one * input + one * 2 * padding - one * dilation * (kernel - 1) - 1).value();
  return room < 0 ? 0 : room / stride + 1;
}

namespace detail {
namespace {

/// The checks that all convolutions share; `in` and `out` are the channels that w expects.
void check_conv(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                const ConvOptions& o, std::int64_t in, std::int64_t out) {
  require<ShapeError>(x.size(1) == in, op, ": input ", x.shape(), " has ", x.size(1),
                      " channels, but weight ", w.shape(), " with ", o.groups, " groups expects ",
                      in);
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == out), op, ": bias ",
                      bias.defined() ? bias.shape() : Dims{}, " for ", out, " output channels");
  const auto at_least = [](const Dims& sizes, std::int64_t least) {
    return std::ranges::all_of(sizes, [least](std::int64_t size) { return size >= least; });
  };
  require<ShapeError>(at_least(o.stride, 1) && at_least(o.dilation, 1) && at_least(o.padding, 0),
                      op, ": stride and dilation must be positive, padding not negative");
  require<DTypeError>(is_floating(x.dtype()) && x.dtype() == w.dtype() &&
                          (!bias.defined() || bias.dtype() == x.dtype()),
                      op, ": input of ", x.dtype(), ", weight of ", w.dtype(),
                      how_to_convert(x.dtype(), w.dtype()));
  require_one_device(op, {x, w, bias});
}

/// The number of channels of an image, if each group has w.size(1).
std::int64_t all_channels(const char* op, const Tensor& x, const Tensor& w, const ConvOptions& o,
                          const char* which) {
  const std::int64_t dims = o.stride.size() + 2;
  require<ShapeError>(x.dim() == dims && w.dim() == dims, op, ": input ", x.shape(), " and weight ",
                      w.shape(), " must both have ", dims, " dimensions");
  require<ShapeError>(o.groups >= 1 && w.size(0) % o.groups == 0, op, ": ", w.size(0), which,
                      " channels do not divide into ", o.groups, " groups");
  return (CheckedSize(w.size(1), op) * o.groups).value();
}

}  // namespace

Dims conv_sizes(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                const ConvOptions& o) {
  check_conv(op, x, w, bias, o, all_channels(op, x, w, o, " output"), w.size(0));
  Dims sizes;
  for (std::int64_t i = 0; i < o.stride.size(); ++i) {
    sizes.push_back(
        conv_output_size(x.size(i + 2), w.size(i + 2), o.stride[i], o.padding[i], o.dilation[i]));
    require<ShapeError>(w.size(i + 2) > 0 && sizes[i] > 0, op, ": the kernel of weight ", w.shape(),
                        " is larger than the padded input ", x.shape());
  }
  return sizes;
}

Dims conv_transpose_sizes(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                          const ConvOptions& o) {
  check_conv(op, x, w, bias, o, w.size(0), all_channels(op, x, w, o, " input"));
  Dims sizes;
  bool is_empty = false;
  const CheckedSize one(1, op);
  for (std::int64_t i = 0; i < o.stride.size(); ++i) {
    const std::int64_t more = o.output_padding[i], in = x.size(i + 2), kernel = w.size(i + 2);
    require<ShapeError>(more >= 0 && more < std::max(o.stride[i], o.dilation[i]), op,
                        ": output padding ", o.output_padding,
                        " must be smaller than stride or dilation");
    sizes.push_back((one * o.stride[i] * (in - 1) - one * 2 * o.padding[i] +
                     one * o.dilation[i] * (kernel - 1) + more + 1)
                        .value());
    is_empty = is_empty || in == 0 || kernel == 0 || sizes[i] <= 0;
  }
  require<ShapeError>(!is_empty, op, ": input ", x.shape(), " and weight ", w.shape(),
                      " give an empty output ", sizes);
  return sizes;
}

}  // namespace detail

Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv1dOptions options) {
  const OpRange op("conv1d");
  if (x.dim() == 2 && w.dim() == 3) return squeeze(conv1d(unsqueeze(x, 0), w, bias, options), 0);
  if (const Casts cast{AutocastOp::conv2d, x}) return conv1d(cast(x), cast(w), cast(bias), options);
  const auto& [stride, padding, dilation, groups] = options;
  detail::conv_sizes(
      "conv1d", x, w, bias,
      {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
  const Tensor y = conv2d(unsqueeze(x, 2), unsqueeze(w, 2), bias,
                          {.stride = {1, stride},
                           .padding = {0, padding},
                           .dilation = {1, dilation},
                           .groups = groups});
  return squeeze(y, 2);
}

Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& bias, Conv3dOptions options) {
  const OpRange op("conv3d");
  if (x.dim() == 4 && w.dim() == 5) return squeeze(conv3d(unsqueeze(x, 0), w, bias, options), 0);
  if (const Casts cast{AutocastOp::conv2d, x}) return conv3d(cast(x), cast(w), cast(bias), options);
  const auto& [stride, padding, dilation, groups] = options;
  const Dims sizes = detail::conv_sizes("conv3d", x, w, bias,
                                        {.stride = detail::dims_of(stride),
                                         .padding = detail::dims_of(padding),
                                         .dilation = detail::dims_of(dilation),
                                         .groups = groups});
  const std::int64_t n = x.size(0), depth = sizes[0], kernel = w.size(2);
  const Tensor padded = padding.d == 0 ? x : pad(x, {0, 0, 0, 0, padding.d, padding.d});
  Tensors slices;  // (N, O, C, H, W): for each slice t of the kernel, those that it multiplies
  for (std::int64_t t = 0; t < kernel; ++t) {
    const std::int64_t first = kernel == 1 ? 0 : t * dilation.d;
    slices.push_back(
        transpose(slice(padded, 2, first, first + (depth - 1) * stride.d + 1, stride.d), 1, 2));
  }
  const Tensor images =
      reshape(stack(slices, 3), {n * depth, x.size(1) * kernel, x.size(3), x.size(4)});
  const Tensor y =
      conv2d(images, reshape(w, {w.size(0), w.size(1) * kernel, w.size(3), w.size(4)}), bias,
             {.stride = {stride.h, stride.w},
              .padding = {padding.h, padding.w},
              .dilation = {dilation.h, dilation.w},
              .groups = groups});
  return transpose(unflatten(y, 0, {n, depth}), 1, 2);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& w, const Tensor& bias,
                        ConvTranspose1dOptions options) {
  const OpRange op("conv_transpose1d");
  if (x.dim() == 2 && w.dim() == 3)
    return squeeze(conv_transpose1d(unsqueeze(x, 0), w, bias, options), 0);
  if (const Casts cast{AutocastOp::conv_transpose2d, x})
    return conv_transpose1d(cast(x), cast(w), cast(bias), options);
  const auto& [stride, padding, more, groups, dilation] = options;
  detail::conv_transpose_sizes("conv_transpose1d", x, w, bias,
                               {.stride = stride,
                                .padding = padding,
                                .dilation = dilation,
                                .groups = groups,
                                .output_padding = more});
  const Tensor y = conv_transpose2d(unsqueeze(x, 2), unsqueeze(w, 2), bias,
                                    {.stride = {1, stride},
                                     .padding = {0, padding},
                                     .output_padding = {0, more},
                                     .groups = groups,
                                     .dilation = {1, dilation}});
  return squeeze(y, 2);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& w, const Tensor& bias,
                        ConvTranspose3dOptions options) {
  const OpRange op("conv_transpose3d");
  if (x.dim() == 4 && w.dim() == 5)
    return squeeze(conv_transpose3d(unsqueeze(x, 0), w, bias, options), 0);
  if (const Casts cast{AutocastOp::conv_transpose2d, x})
    return conv_transpose3d(cast(x), cast(w), cast(bias), options);
  const auto& [stride, padding, more, groups, dilation] = options;
  const Dims sizes = detail::conv_transpose_sizes("conv_transpose3d", x, w, bias,
                                                  {.stride = detail::dims_of(stride),
                                                   .padding = detail::dims_of(padding),
                                                   .dilation = detail::dims_of(dilation),
                                                   .groups = groups,
                                                   .output_padding = detail::dims_of(more)});
  // Each slice of x gives `kernel` slices of y, which conv_transpose2d computes as channels.
  const std::int64_t n = x.size(0), depth = x.size(2), kernel = w.size(2);
  const std::int64_t channels = w.size(1) * groups;
  const Tensor images = reshape(transpose(x, 1, 2), {n * depth, x.size(1), x.size(3), x.size(4)});
  const Tensor slices = conv_transpose2d(
      images, reshape(w, {w.size(0), w.size(1) * kernel, w.size(3), w.size(4)}), {},
      {.stride = {stride.h, stride.w},
       .padding = {padding.h, padding.w},
       .output_padding = {more.h, more.w},
       .groups = groups,
       .dilation = {dilation.h, dilation.w}});
  const Tensor in_order = permute(reshape(slices, {n, depth, channels, kernel, sizes[1], sizes[2]}),
                                  {0, 2, 3, 1, 4, 5});
  std::vector<std::int64_t> positions;  // of these slices in y, which then loses its padding
  for (std::int64_t t = 0; t < kernel; ++t) {
    for (std::int64_t d = 0; d < depth; ++d) positions.push_back(d * stride.d + t * dilation.d);
  }
  const std::int64_t length = std::max(positions.back() + 1, padding.d + sizes[0]);
  const Tensor padded =
      index_add(zeros({n, channels, length, sizes[1], sizes[2]}, slices.options()), 2,
                to(tensor(positions), x.device()),
                reshape(in_order, {n, channels, kernel * depth, sizes[1], sizes[2]}));
  const Tensor y = narrow(padded, 2, padding.d, sizes[0]);
  return bias.defined() ? y + reshape(bias, {1, channels, 1, 1, 1}) : y;
}

}  // namespace rondo
