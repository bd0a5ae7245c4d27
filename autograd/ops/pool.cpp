// Pooling. Once max pooling has chosen its indices, every op here is linear, so each op and its
// transpose are closed under differentiation.

#include "autograd/ops/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/image_dims.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/windows.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

void require_planes(const Tensor& x, const char* op) {
  require<ShapeError>(x.dim() == 4, op, ": input ", x.shape(), " is not (N, C, H, W) or (C, H, W)");
  require_float(x, op);
}

/// An uninitialised tensor on x's device, with x's memory format.
Tensor like(const Tensor& x, const Dims& sizes, DType dtype) {
  return Tensor::empty(sizes,
                       {.dtype = dtype, .device = x.device(), .format = x.suggested_format()});
}

/// Number of windows along one dimension. In ceil_mode the last window may extend past the edge,
/// but must start inside the input or its left padding.
std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                     std::int64_t padding, bool ceil_mode) {
  const CheckedSize one(1, "pooling");
  const std::int64_t room = (one * size + one * 2 * padding - kernel).value();
  if (room < 0 && !(ceil_mode && room + stride > 0)) return 0;
  // Counts the windows that start at or before the end of the room; in ceil_mode one more.
  std::int64_t n = room < 0 ? 0 : room / stride + 1;
  if (ceil_mode && (room < 0 || room % stride != 0)) ++n;
  return ceil_mode && (one * (n - 1) * stride).value() >= (one * size + padding).value() ? n - 1
                                                                                         : n;
}

struct PoolPlan {
  Pool2dParams params;
  Dims output;
};

PoolPlan plan(const char* op, const Tensor& x, Conv2dOptions::Pair kernel,
              const Pool2dOptions& options) {
  require_planes(x, op);
  require<ShapeError>(x.size(2) > 0 && x.size(3) > 0, op, ": input ", x.shape(),
                      " has empty planes");
  Pool2dParams p{kernel.h,          kernel.w,          options.stride.h,         options.stride.w,
                 options.padding.h, options.padding.w, options.count_include_pad};
  require<ShapeError>(p.kernel_h > 0 && p.kernel_w > 0, op, ": kernel ", p.kernel_h, "x",
                      p.kernel_w, " is empty");
  if (p.stride_h == 0) p.stride_h = p.kernel_h;
  if (p.stride_w == 0) p.stride_w = p.kernel_w;
  require<ShapeError>(p.stride_h > 0 && p.stride_w > 0, op, ": stride ", p.stride_h, "x",
                      p.stride_w, " is not positive");
  require<ShapeError>(
      p.pad_h >= 0 && p.pad_w >= 0 && p.pad_h <= p.kernel_h / 2 && p.pad_w <= p.kernel_w / 2, op,
      ": padding ", p.pad_h, "x", p.pad_w, " is not within half of the kernel ", p.kernel_h, "x",
      p.kernel_w);
  Dims out = {x.size(0), x.size(1),
              windows(x.size(2), p.kernel_h, p.stride_h, p.pad_h, options.ceil_mode),
              windows(x.size(3), p.kernel_w, p.stride_w, p.pad_w, options.ceil_mode)};
  require<ShapeError>(out[2] > 0 && out[3] > 0, op, ": input ", x.shape(),
                      " is smaller than the kernel ", p.kernel_h, "x", p.kernel_w);
  return {p, out};
}

Tensor max_pool2d_gather(const Tensor& x, const Tensor& indices, const Pool2dParams& params);
Tensor max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Dims& input,
                           const Pool2dParams& params);

struct MaxPool2dGatherBackward final : Node {
  SavedTensor indices;
  Dims input;
  Pool2dParams params;
  MaxPool2dGatherBackward(const Tensor& indices, const Dims& input, const Pool2dParams& params)
      : indices(indices), input(input), params(params) {}
  const char* name() const override { return "max_pool2d_gather"; }
  Tensors backward(const Tensors& dy) override {
    return {max_pool2d_backward(dy[0], indices.get(*this), input, params)};
  }
  void release_saved() override { indices.reset(); }
};

/// The elements of x that max pooling chose.
Tensor max_pool2d_gather(const Tensor& x, const Tensor& indices, const Pool2dParams& params) {
  Tensor y = like(x, indices.shape(), x.dtype());
  backend(x).max_pool2d_gather(x, indices, y);
  return record<MaxPool2dGatherBackward>({x}, y, indices, x.shape(), params);
}

struct MaxPool2dBackwardBackward final : Node {
  SavedTensor indices;
  Pool2dParams params;
  MaxPool2dBackwardBackward(const Tensor& indices, const Pool2dParams& params)
      : indices(indices), params(params) {}
  const char* name() const override { return "max_pool2d_backward"; }
  Tensors backward(const Tensors& dy) override {
    return {max_pool2d_gather(dy[0], indices.get(*this), params)};
  }
  void release_saved() override { indices.reset(); }
};

/// Zeros, with dy added at the elements that max pooling chose.
Tensor max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Dims& input,
                           const Pool2dParams& params) {
  Tensor dx = like(indices, input, dy.dtype());
  backend(dx).max_pool2d_backward(dy, indices, params, dx);
  return record<MaxPool2dBackwardBackward>({dy}, dx, indices, params);
}

/// The window parameters. ceil_mode is not needed, because the output's shape gives the number of
/// windows.
void tell(AttributeVisitor& v, const Pool2dParams& params) {
  v.integers("kernel", {params.kernel_h, params.kernel_w});
  v.integers("stride", {params.stride_h, params.stride_w});
  v.integers("padding", {params.pad_h, params.pad_w});
}

struct MaxPool2dBackward final : Node {
  SavedTensor indices;
  Dims input;
  Pool2dParams params;
  MaxPool2dBackward(const Tensor& indices, const Dims& input, const Pool2dParams& params)
      : indices(indices), input(input), params(params) {}
  const char* name() const override { return "max_pool2d"; }
  Tensors backward(const Tensors& dy) override {
    return {max_pool2d_backward(dy[0], indices.get(*this), input, params)};
  }
  void release_saved() override { indices.reset(); }
  void attributes(AttributeVisitor& v) override { tell(v, params); }
};

}  // namespace

namespace {

/// Windows of a padded line of n elements. A place in the padding becomes that of the window's
/// first element, which changes neither the maximum nor its index.
struct PaddedWindows {
  detail::Windows windows;
  Tensor is_empty;  // (count): which windows hold padding only; undefined if none does

  PaddedWindows(std::int64_t n, std::int64_t size, std::int64_t count, std::int64_t stride,
                std::int64_t dilation, std::int64_t padding, Device device)
      : windows(detail::sliding_windows(size, count, stride, dilation, device)) {
    Tensor& places = windows.positions;
    places = places - padding;
    const Tensor start = places[0];
    const Tensor first = where(lt(start, 0), remainder(start, dilation), start);
    const Tensor is_inside = logical_and(ge(places, 0), lt(places, n));
    places = where(is_inside, places, clamp_max(first, n - 1));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = i * stride - padding;
      const std::int64_t inside = begin < 0 ? (begin % dilation + dilation) % dilation : begin;
      if (inside >= n) is_empty = ge(first, n);
    }
  }
};

/// Windows with gaps, as copies of their elements.
ValuesAndIndices dilated_max_pool2d(const Tensor& x, Conv2dOptions::Pair kernel,
                                    const Pool2dOptions& options) {
  const char* called = OpName::called("max_pool2d");
  const auto [dilation_h, dilation_w] = options.dilation;
  require<ShapeError>(kernel.h > 0 && kernel.w > 0 && dilation_h > 0 && dilation_w > 0, called,
                      ": kernel and dilation must be at least 1");
  const CheckedSize one(1, called);
  const auto [params, output] = plan(called, x,
                                     {(one * dilation_h * (kernel.h - 1) + 1).value(),
                                      (one * dilation_w * (kernel.w - 1) + 1).value()},
                                     options);
  const PaddedWindows rows(x.size(2), kernel.h, output[2], params.stride_h, dilation_h,
                           params.pad_h, x.device());
  const PaddedWindows columns(x.size(3), kernel.w, output[3], params.stride_w, dilation_w,
                              params.pad_w, x.device());
  ValuesAndIndices y = detail::largest_of_windows(x, rows.windows, columns.windows);
  const double lowest = -std::numeric_limits<double>::infinity();
  if (rows.is_empty.defined())
    y.values = masked_fill(y.values, unsqueeze(rows.is_empty, 1), lowest);
  if (columns.is_empty.defined()) y.values = masked_fill(y.values, columns.is_empty, lowest);
  return y;
}

}  // namespace

ValuesAndIndices max_pool2d_with_indices(const Tensor& x, Conv2dOptions::Pair kernel,
                                         Pool2dOptions options) {
  const OpRange op("max_pool2d_with_indices");
  if (x.dim() == 3)
    return detail::with_batch(
        x, 4, [&](const Tensor& image) { return max_pool2d_with_indices(image, kernel, options); });
  const char* called = OpName::called("max_pool2d");
  require(!options.divisor_override, called, ": only average pooling has a divisor_override");
  if (options.dilation.h != 1 || options.dilation.w != 1)
    return dilated_max_pool2d(x, kernel, options);
  auto [params, output] = plan(called, x, kernel, options);
  Tensor y = like(x, output, x.dtype()), indices = like(x, output, i64);
  backend(x).max_pool2d(x, y, indices, params);
  return {record<MaxPool2dBackward>({x}, y, indices, x.shape(), params), indices};
}

Tensor max_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options) {
  const OpRange op("max_pool2d");
  return max_pool2d_with_indices(x, kernel, options).values;
}

namespace {

Tensor average(const Tensor& x, const Dims& output, const Pool2dParams& params);
Tensor average_backward(const Tensor& dy, const Dims& input, const Pool2dParams& params);

struct AvgPool2dBackward final : Node {
  Dims input;
  Pool2dParams params;
  AvgPool2dBackward(const Dims& input, const Pool2dParams& params) : input(input), params(params) {}
  const char* name() const override { return "avg_pool2d"; }
  Tensors backward(const Tensors& dy) override { return {average_backward(dy[0], input, params)}; }
  void attributes(AttributeVisitor& v) override {
    tell(v, params);
    v.integer("count_include_pad", params.count_include_pad ? 1 : 0);
  }
};

struct AvgPool2dBackwardBackward final : Node {
  Dims output;
  Pool2dParams params;
  AvgPool2dBackwardBackward(const Dims& output, const Pool2dParams& params)
      : output(output), params(params) {}
  const char* name() const override { return "avg_pool2d_backward"; }
  Tensors backward(const Tensors& dy) override { return {average(dy[0], output, params)}; }
};

Tensor average(const Tensor& x, const Dims& output, const Pool2dParams& params) {
  Tensor y = like(x, output, x.dtype());
  backend(x).avg_pool2d(x, y, params);
  return record<AvgPool2dBackward>({x}, y, x.shape(), params);
}

Tensor average_backward(const Tensor& dy, const Dims& input, const Pool2dParams& params) {
  Tensor dx = like(dy, input, dy.dtype());
  backend(dy).avg_pool2d_backward(dy, dx, params);
  return record<AvgPool2dBackwardBackward>({dy}, dx, dy.shape(), params);
}

}  // namespace

namespace {

/// How many elements of the padded input each window has along one dimension; in ceil_mode the last
/// window may have fewer than `kernel`.
Tensor window_sizes(std::int64_t size, std::int64_t count, std::int64_t kernel, std::int64_t stride,
                    std::int64_t padding, const Tensor& like) {
  std::vector<double> sizes;
  for (std::int64_t i = 0; i < count; ++i)
    sizes.push_back(static_cast<double>(std::min(kernel, size + 2 * padding - i * stride)));
  return to(to(tensor(sizes), like.dtype()), like.device());
}

/// The sums of the windows divided by one number.
Tensor average_by(std::int64_t divisor, const Tensor& x, const Dims& output, Pool2dParams params) {
  require(divisor != 0, "avg_pool2d: divisor_override must not be 0");
  params.count_include_pad = true;
  const Tensor rows = window_sizes(x.size(2), output[2], params.kernel_h, params.stride_h,
                                   params.pad_h, x),
               columns = window_sizes(x.size(3), output[3], params.kernel_w, params.stride_w,
                                      params.pad_w, x);
  return average(x, output, params) * (unsqueeze(rows, 1) * columns) / static_cast<double>(divisor);
}

}  // namespace

Tensor avg_pool2d(const Tensor& x, Conv2dOptions::Pair kernel, Pool2dOptions options) {
  const OpRange op("avg_pool2d");
  if (x.dim() == 3)
    return detail::with_batch(
        x, 4, [&](const Tensor& image) { return avg_pool2d(image, kernel, options); });
  require(options.dilation.h == 1 && options.dilation.w == 1,
          "avg_pool2d: only max pooling has a dilation");
  auto [params, output] = plan("avg_pool2d", x, kernel, options);
  if (options.divisor_override) return average_by(*options.divisor_override, x, output, params);
  return average(x, output, params);
}

namespace {

Tensor adaptive_average(const Tensor& x, const Dims& output);
Tensor adaptive_average_backward(const Tensor& dy, const Dims& input);

struct AdaptiveAvgPool2dBackward final : Node {
  Dims input;
  explicit AdaptiveAvgPool2dBackward(const Dims& input) : input(input) {}
  const char* name() const override { return "adaptive_avg_pool2d"; }
  Tensors backward(const Tensors& dy) override { return {adaptive_average_backward(dy[0], input)}; }
};

struct AdaptiveAvgPool2dBackwardBackward final : Node {
  Dims output;
  explicit AdaptiveAvgPool2dBackwardBackward(const Dims& output) : output(output) {}
  const char* name() const override { return "adaptive_avg_pool2d_backward"; }
  Tensors backward(const Tensors& dy) override { return {adaptive_average(dy[0], output)}; }
};

Tensor adaptive_average(const Tensor& x, const Dims& output) {
  Tensor y = like(x, output, x.dtype());
  backend(x).adaptive_avg_pool2d(x, y);
  return record<AdaptiveAvgPool2dBackward>({x}, y, x.shape());
}

Tensor adaptive_average_backward(const Tensor& dy, const Dims& input) {
  Tensor dx = like(dy, input, dy.dtype());
  backend(dy).adaptive_avg_pool2d_backward(dy, dx);
  return record<AdaptiveAvgPool2dBackwardBackward>({dy}, dx, dy.shape());
}

}  // namespace

Tensor adaptive_avg_pool2d(const Tensor& x, Conv2dOptions::Pair output_size) {
  const OpRange op("adaptive_avg_pool2d");
  if (x.dim() == 3)
    return detail::with_batch(
        x, 4, [&](const Tensor& image) { return adaptive_avg_pool2d(image, output_size); });
  require_planes(x, "adaptive_avg_pool2d");
  require<ShapeError>(output_size.h > 0 && output_size.w > 0, "adaptive_avg_pool2d: output size ",
                      output_size.h, "x", output_size.w, " is empty");
  require<ShapeError>(x.size(2) > 0 && x.size(3) > 0, "adaptive_avg_pool2d: input ", x.shape(),
                      " has empty planes");
  return adaptive_average(x, {x.size(0), x.size(1), output_size.h, output_size.w});
}

Tensor upsample_nearest2d(const Tensor& x, std::int64_t scale) {
  const OpRange op("upsample_nearest2d");
  if (const Casts cast{AutocastOp::upsample_nearest2d, x})
    return upsample_nearest2d(cast(x), scale);
  require<ShapeError>(x.dim() == 4, "upsample_nearest2d: input ", x.shape(),
                      " is not (N, C, H, W)");
  require<ShapeError>(scale > 0, "upsample_nearest2d: scale ", scale, " is not positive");
  // (.., H, W) to (.., H, 1, W, 1) to (.., H, s, W, s) to (.., Hs, Ws), in memory order.
  std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3), s = scale;
  if (x.suggested_format() == MemoryFormat::channels_last) {
    Tensor rows = reshape(permute(x, {0, 2, 3, 1}), {n, h, 1, w, 1, c});
    Tensor y = reshape(expand(rows, {n, h, s, w, s, c}), {n, h * s, w * s, c});
    return permute(y, {0, 3, 1, 2});
  }
  Tensor rows = reshape(x, {n, c, h, 1, w, 1});
  return reshape(expand(rows, {n, c, h, s, w, s}), {n, c, h * s, w * s});
}

}  // namespace rondo
