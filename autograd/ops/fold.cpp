#include "autograd/ops/fold.h"

#include <algorithm>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/windows.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

namespace detail {

Windows sliding_windows(std::int64_t size, std::int64_t count, std::int64_t stride,
                        std::int64_t dilation, Device device) {
  const TensorOptions options{.dtype = i64, .device = device};
  return {size, count,
          unsqueeze(arange(size, options), 1) * dilation + arange(count, options) * stride};
}

Windows adaptive_windows(std::int64_t n, std::int64_t count, Device device) {
  std::int64_t size = 0;
  for (std::int64_t i = 0; i < count; ++i)
    size = std::max(size, ((i + 1) * n + count - 1) / count - i * n / count);
  const TensorOptions options{.dtype = i64, .device = device};
  const Tensor edges = arange(count + 1, options) * n, begin = narrow(edges, 0, 0, count),
               end = narrow(edges, 0, 1, count) + (count - 1);
  return {size, count,
          minimum(unsqueeze(arange(size, options), 1) + floor_divide(begin, count),
                  floor_divide(end, count) - 1)};
}

Tensor gather_windows(const Tensor& x, const Windows& rows, const Windows& columns) {
  const Tensor of_rows = index_select(x, 2, reshape(rows.positions, {-1}));
  const Tensor all = index_select(of_rows, 3, reshape(columns.positions, {-1}));
  const Tensor split =
      reshape(all, {x.size(0), x.size(1), rows.size, rows.count, columns.size, columns.count});
  return permute(split, {0, 1, 2, 4, 3, 5});
}

Tensor plane_positions(const Windows& rows, const Windows& columns, std::int64_t width) {
  return reshape(rows.positions, {rows.size, 1, rows.count, 1}) * width +
         reshape(columns.positions, {1, columns.size, 1, columns.count});
}

ValuesAndIndices largest_of_windows(const Tensor& x, const Windows& rows, const Windows& columns) {
  const std::int64_t n = x.size(0), channels = x.size(1), elements = rows.size * columns.size;
  const Dims sizes = {n, channels, elements, rows.count, columns.count};
  const auto [values, place] = max(reshape(gather_windows(x, rows, columns), sizes), 2, true);
  const Tensor positions = reshape(plane_positions(rows, columns, x.size(3)),
                                   {1, 1, elements, rows.count, columns.count});
  const Tensor indices = gather(expand(positions, sizes), 2, place);
  return {squeeze(values, 2), squeeze(indices, 2)};
}

}  // namespace detail

namespace {

/// The windows of a padded image.
struct ImageWindows {
  detail::Windows rows, columns;
  Dims padding;

  ImageWindows(const char* op, std::int64_t height, std::int64_t width, Conv2dOptions::Pair kernel,
               const FoldOptions& o, Device device)
      : padding{o.padding.w, o.padding.w, o.padding.h, o.padding.h} {
    require<ShapeError>(kernel.h > 0 && kernel.w > 0 && o.dilation.h > 0 && o.dilation.w > 0 &&
                            o.stride.h > 0 && o.stride.w > 0 && o.padding.h >= 0 &&
                            o.padding.w >= 0,
                        op, ": kernel, stride and dilation must be at least 1, padding at least 0");
    const std::int64_t p =
        conv_output_size(height, kernel.h, o.stride.h, o.padding.h, o.dilation.h);
    const std::int64_t q = conv_output_size(width, kernel.w, o.stride.w, o.padding.w, o.dilation.w);
    require<ShapeError>(p > 0 && q > 0, op, ": the kernel ", kernel.h, " x ", kernel.w,
                        " does not fit an image of ", height, " x ", width);
    rows = detail::sliding_windows(kernel.h, p, o.stride.h, o.dilation.h, device);
    columns = detail::sliding_windows(kernel.w, q, o.stride.w, o.dilation.w, device);
  }
};

}  // namespace

Tensor unfold(const Tensor& x, Conv2dOptions::Pair kernel, FoldOptions options) {
  const OpRange op("unfold");
  require<ShapeError>(x.dim() == 3 || x.dim() == 4, "unfold: input ", x.shape(),
                      " is not (N, C, H, W) or (C, H, W)");
  if (x.dim() == 3) return squeeze(unfold(unsqueeze(x, 0), kernel, options), 0);
  const ImageWindows plan("unfold", x.size(2), x.size(3), kernel, options, x.device());
  const Tensor all = detail::gather_windows(pad(x, plan.padding), plan.rows, plan.columns);
  return reshape(
      all, {x.size(0), x.size(1) * kernel.h * kernel.w, plan.rows.count * plan.columns.count});
}

Tensor fold(const Tensor& x, Conv2dOptions::Pair output_size, Conv2dOptions::Pair kernel,
            FoldOptions options) {
  const OpRange op("fold");
  require<ShapeError>(x.dim() == 2 || x.dim() == 3, "fold: input ", x.shape(),
                      " is not (N, C kernel, L) or (C kernel, L)");
  if (x.dim() == 2) return squeeze(fold(unsqueeze(x, 0), output_size, kernel, options), 0);
  const ImageWindows plan("fold", output_size.h, output_size.w, kernel, options, x.device());
  const std::int64_t n = x.size(0), elements = kernel.h * kernel.w, channels = x.size(1) / elements,
                     count = plan.rows.count * plan.columns.count;
  require<ShapeError>(x.size(1) % elements == 0 && x.size(2) == count, "fold: input ", x.shape(),
                      " is not (N, C ", elements, ", ", count, ")");
  const std::int64_t height = output_size.h + 2 * options.padding.h,
                     width = output_size.w + 2 * options.padding.w;
  const Tensor positions =
      reshape(detail::plane_positions(plan.rows, plan.columns, width), {1, 1, -1});
  const Tensor sums = scatter_add(zeros({n, channels, height * width}, x.options()), 2,
                                  expand(positions, {n, channels, elements * count}),
                                  reshape(x, {n, channels, elements * count}));
  Dims crop;
  for (const std::int64_t side : plan.padding) crop.push_back(-side);
  return pad(reshape(sums, {n, channels, height, width}), crop);
}

}  // namespace rondo
