// Pooling that is composed of other ops (see pool.h): in one and three dimensions by the ops for
// two, because windows are products of intervals.

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/windows.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x,
                                                  Conv2dOptions::Pair output_size) {
  const RecordOp op("adaptive_max_pool2d");
  require_float(x, "adaptive_max_pool2d");
  require<ShapeError>(x.dim() == 4 && x.size(2) > 0 && x.size(3) > 0, "adaptive_max_pool2d: input ",
                      x.shape(), " is not (N, C, H, W) with pixels");
  require<ShapeError>(output_size.h > 0 && output_size.w > 0, "adaptive_max_pool2d: output size ",
                      output_size.h, "x", output_size.w, " is empty");
  return detail::largest_of_windows(x,
                                    detail::adaptive_windows(x.size(2), output_size.h, x.device()),
                                    detail::adaptive_windows(x.size(3), output_size.w, x.device()));
}
Tensor adaptive_max_pool2d(const Tensor& x, Conv2dOptions::Pair output_size) {
  return adaptive_max_pool2d_with_indices(x, output_size).values;
}

Tensor lp_pool2d(const Tensor& x, double p, Conv2dOptions::Pair kernel, Pool2dOptions options) {
  const RecordOp op("lp_pool2d");
  require_float(x, "lp_pool2d");
  require(p != 0, "lp_pool2d: p must not be 0");
  const auto elements = static_cast<double>(kernel.h * kernel.w);
  const Tensor sums = avg_pool2d(pow(widened(x), p), kernel, options) * elements;
  const Tensor is_zero = sums == 0;  // where the root's derivative is infinite
  const Tensor roots = pow(masked_fill(sums, is_zero, 1.0), 1 / p);
  return to(masked_fill(roots, is_zero, 0.0), x.dtype());
}

Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Conv2dOptions::Pair kernel,
                    MaxUnpool2dOptions options) {
  const RecordOp op("max_unpool2d");
  require<ShapeError>(x.dim() == 4 && indices.shape() == x.shape(), "max_unpool2d: input ",
                      x.shape(), " and indices ", indices.shape(), " are not both (N, C, H, W)");
  require<DTypeError>(indices.dtype() == i64, "max_unpool2d: the indices are ", indices.dtype(),
                      ", not i64");
  const auto size = [](std::int64_t n, std::int64_t kernel, std::int64_t stride,
                       std::int64_t padding, std::optional<std::int64_t> wanted) {
    if (stride == 0) stride = kernel;
    const std::int64_t usual = (n - 1) * stride - 2 * padding + kernel;
    if (!wanted) return usual;
    require<ShapeError>(*wanted > usual - stride && *wanted < usual + stride,
                        "max_unpool2d: output size ", *wanted, " is not between ", usual - stride,
                        " and ", usual + stride);
    return *wanted;
  };
  const auto wanted = options.output_size;
  const std::int64_t h = size(x.size(2), kernel.h, options.stride.h, options.padding.h,
                              wanted ? std::optional(wanted->h) : std::nullopt),
                     w = size(x.size(3), kernel.w, options.stride.w, options.padding.w,
                              wanted ? std::optional(wanted->w) : std::nullopt);
  const Dims flat = {x.size(0), x.size(1), x.size(2) * x.size(3)};
  const Tensor at = reshape(indices, flat), values = reshape(x, flat);
  const Tensor zero = zeros({x.size(0), x.size(1), h * w}, x.options());
  const Tensor counts = scatter_add(zero, 2, at, ones_like(values.detach()));
  const Tensor y = scatter_add(zero, 2, at, values) / masked_fill(counts, counts == 0, 1.0);
  return reshape(y, {x.size(0), x.size(1), h, w});
}

namespace {

Pool2dOptions in_2d(const Pool1dOptions& options) {
  return {.stride = {1, options.stride},
          .padding = {0, options.padding},
          .ceil_mode = options.ceil_mode,
          .count_include_pad = options.count_include_pad,
          .dilation = {1, options.dilation}};
}

/// Applies f to x (N, C, L) as images of height 1.
template <class F>
Tensor as_line(const char* name, const Tensor& x, F f) {
  const RecordOp op(name);
  require<ShapeError>(x.dim() == 3, name, ": input ", x.shape(), " is not (N, C, L)");
  return squeeze(f(unsqueeze(x, 2)), 2);
}

/// Applies `planes` to all planes of x (N, C, D, H, W), and then `depth` to images (D, H W).
template <class Planes, class Depth>
Tensor as_planes(const char* name, const Tensor& x, Planes planes, Depth depth) {
  const RecordOp op(name);
  require<ShapeError>(x.dim() == 5, name, ": input ", x.shape(), " is not (N, C, D, H, W)");
  const std::int64_t n = x.size(0), channels = x.size(1), d = x.size(2);
  const Tensor small = planes(reshape(x, {n, channels * d, x.size(3), x.size(4)}));
  const std::int64_t h = small.size(2), w = small.size(3);
  return unflatten(depth(reshape(small, {n, channels, d, h * w})), 3, {h, w});
}

/// A pooling op in three dimensions by two of its calls in two.
Tensor pool3d(const char* name, const Tensor& x, Pool3dOptions::Triple kernel,
              const Pool3dOptions& options,
              Tensor (*pool)(const Tensor&, Conv2dOptions::Pair, Pool2dOptions)) {
  const auto [stride, padding, ceil_mode, count_include_pad, dilation] = options;
  const Pool2dOptions planes{.stride = {stride.h, stride.w},
                             .padding = {padding.h, padding.w},
                             .ceil_mode = ceil_mode,
                             .count_include_pad = count_include_pad,
                             .dilation = {dilation.h, dilation.w}};
  const Pool2dOptions depth{.stride = {stride.d, 1},
                            .padding = {padding.d, 0},
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count_include_pad,
                            .dilation = {dilation.d, 1}};
  return as_planes(
      name, x,
      [&](const Tensor& image) {
        return pool(image, {kernel.h, kernel.w}, planes);
      },
      [&](const Tensor& image) {
        return pool(image, {kernel.d, 1}, depth);
      });
}

Tensor adaptive_pool3d(const char* name, const Tensor& x, Pool3dOptions::Triple size,
                       Tensor (*pool)(const Tensor&, Conv2dOptions::Pair)) {
  return as_planes(
      name, x,
      [&](const Tensor& image) {
        return pool(image, {size.h, size.w});
      },
      [&](const Tensor& image) {
        return pool(image, {size.d, image.size(3)});
      });
}

}  // namespace

Tensor max_pool1d(const Tensor& x, std::int64_t kernel, Pool1dOptions options) {
  return as_line("max_pool1d", x, [&](const Tensor& image) {
    return max_pool2d(image, {1, kernel}, in_2d(options));
  });
}
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, Pool1dOptions options) {
  return as_line("avg_pool1d", x, [&](const Tensor& image) {
    return avg_pool2d(image, {1, kernel}, in_2d(options));
  });
}
Tensor lp_pool1d(const Tensor& x, double p, std::int64_t kernel, Pool1dOptions options) {
  return as_line("lp_pool1d", x, [&](const Tensor& image) {
    return lp_pool2d(image, p, {1, kernel}, in_2d(options));
  });
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size) {
  return as_line("adaptive_avg_pool1d", x, [&](const Tensor& image) {
    return adaptive_avg_pool2d(image, {1, output_size});
  });
}
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t output_size) {
  return as_line("adaptive_max_pool1d", x, [&](const Tensor& image) {
    return adaptive_max_pool2d(image, {1, output_size});
  });
}

Tensor max_pool3d(const Tensor& x, Pool3dOptions::Triple kernel, Pool3dOptions options) {
  return pool3d("max_pool3d", x, kernel, options, max_pool2d);
}
Tensor avg_pool3d(const Tensor& x, Pool3dOptions::Triple kernel, Pool3dOptions options) {
  return pool3d("avg_pool3d", x, kernel, options, avg_pool2d);
}
Tensor adaptive_avg_pool3d(const Tensor& x, Pool3dOptions::Triple output_size) {
  return adaptive_pool3d("adaptive_avg_pool3d", x, output_size, adaptive_avg_pool2d);
}
Tensor adaptive_max_pool3d(const Tensor& x, Pool3dOptions::Triple output_size) {
  return adaptive_pool3d("adaptive_max_pool3d", x, output_size, adaptive_max_pool2d);
}

}  // namespace rondo
