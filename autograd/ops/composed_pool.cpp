// Pooling that is composed of other ops (see pool.h): in one and three dimensions by the ops for
// two, because windows are products of intervals.

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/image_dims.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/ops/windows.h"
#include "autograd/trace.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x,
                                                  Conv2dOptions::Pair output_size) {
  const OpRange op("adaptive_max_pool2d_with_indices");
  if (x.dim() == 3)
    return detail::with_batch(x, 4, [&](const Tensor& image) {
      return adaptive_max_pool2d_with_indices(image, output_size);
    });
  const char* called = OpName::called("adaptive_max_pool2d");
  require_float(x, called);
  require<ShapeError>(x.dim() == 4 && x.size(2) > 0 && x.size(3) > 0, called, ": input ", x.shape(),
                      " is not (N, C, H, W) with pixels");
  require<ShapeError>(output_size.h > 0 && output_size.w > 0, called, ": output size ",
                      output_size.h, "x", output_size.w, " is empty");
  return detail::largest_of_windows(x,
                                    detail::adaptive_windows(x.size(2), output_size.h, x.device()),
                                    detail::adaptive_windows(x.size(3), output_size.w, x.device()));
}
Tensor adaptive_max_pool2d(const Tensor& x, Conv2dOptions::Pair output_size) {
  const OpRange op("adaptive_max_pool2d");
  return adaptive_max_pool2d_with_indices(x, output_size).values;
}

namespace {

/// (Σ x^p)^(1/p) from the averages of windows of so many elements; for p = ±inf the largest or
/// smallest |x|.
template <class Average, class Largest>
Tensor lp_pool(const char* name, const Tensor& x, double p, std::int64_t elements, Average average,
               Largest largest) {
  const OpRange op(name);
  require_float(x, name);
  require(p != 0 && !std::isnan(p), name, ": p must not be ", p);
  if (std::isinf(p)) return p > 0 ? largest(abs(x)) : neg(largest(neg(abs(x))));
  const Tensor sums = average(pow(widened(x), p)) * static_cast<double>(elements);
  if (TraceMode::is_enabled()) return to(pow(sums, 1 / p), x.dtype());
  const Tensor is_zero = sums == 0;  // where the root's derivative is infinite
  const Tensor roots = pow(masked_fill(sums, is_zero, 1.0), 1 / p);
  return to(masked_fill(roots, is_zero, 0.0), x.dtype());
}

/// Puts x at the positions in images of the output's sizes.
template <class Size, class Options>
Tensor unpool(const char* name, const Tensor& x, const Tensor& indices, Size kernel_size,
              const Options& options) {
  const Dims kernel = detail::dims_of(kernel_size), padding = detail::dims_of(options.padding);
  Dims stride = detail::dims_of(options.stride);
  const OpRange op(name);
  const std::int64_t dims = kernel.size(), outer = x.dim() - dims;
  require<ShapeError>((outer == 1 || outer == 2) && indices.shape() == x.shape(), name, ": input ",
                      x.shape(), " and indices ", indices.shape(), " are not both (N, C",
                      dims == 1   ? ", L)"
                      : dims == 2 ? ", H, W)"
                                  : ", D, H, W)");
  require<DTypeError>(indices.dtype() == i64, name, ": the indices are ", indices.dtype(),
                      ", not i64");
  Dims flat(x.shape().begin(), x.shape().begin() + outer), sizes = flat;
  for (std::int64_t d = 0; d < dims; ++d) {
    if (stride[d] == 0) stride[d] = kernel[d];
    const CheckedSize one(1, name);
    const std::int64_t usual =
        (one * (x.size(outer + d) - 1) * stride[d] - one * 2 * padding[d] + kernel[d]).value();
    (one * usual + stride[d]).value();  // the bounds below fit, too
    (one * usual - stride[d]).value();
    const std::int64_t wanted =
        options.output_size ? detail::dims_of(*options.output_size)[d] : usual;
    require<ShapeError>(wanted > usual - stride[d] && wanted < usual + stride[d], name,
                        ": output size ", wanted, " is not between ", usual - stride[d], " and ",
                        usual + stride[d]);
    sizes.push_back(wanted);
  }
  const auto flattened = [&](const Tensor& image) { return flatten(image, outer); };
  flat.push_back(numel_of(sizes) / std::max<std::int64_t>(numel_of(flat), 1));
  const Tensor zero = zeros(flat, x.options());
  return reshape(scatter(zero, outer, flattened(indices), flattened(x)), sizes);
}

}  // namespace

Tensor lp_pool2d(const Tensor& x, double p, Conv2dOptions::Pair kernel, Pool2dOptions options) {
  const OpRange op("lp_pool2d");
  return lp_pool(
      "lp_pool2d", x, p, (CheckedSize(kernel.h, "lp_pool2d") * kernel.w).value(),
      [&](const Tensor& powers) { return avg_pool2d(powers, kernel, options); },
      [&](const Tensor& sizes) { return max_pool2d(sizes, kernel, options); });
}
Tensor lp_pool3d(const Tensor& x, double p, Conv3dOptions::Triple kernel, Pool3dOptions options) {
  const OpRange op("lp_pool3d");
  return lp_pool(
      "lp_pool3d", x, p, (CheckedSize(kernel.d, "lp_pool3d") * kernel.h * kernel.w).value(),
      [&](const Tensor& powers) { return avg_pool3d(powers, kernel, options); },
      [&](const Tensor& sizes) { return max_pool3d(sizes, kernel, options); });
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, std::int64_t kernel,
                    MaxUnpool1dOptions options) {
  const OpRange op("max_unpool1d");
  return unpool("max_unpool1d", x, indices, kernel, options);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Conv2dOptions::Pair kernel,
                    MaxUnpool2dOptions options) {
  const OpRange op("max_unpool2d");
  return unpool("max_unpool2d", x, indices, kernel, options);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Conv3dOptions::Triple kernel,
                    MaxUnpool3dOptions options) {
  const OpRange op("max_unpool3d");
  return unpool("max_unpool3d", x, indices, kernel, options);
}

namespace {

Pool2dOptions in_2d(const Pool1dOptions& options) {
  return {.stride = {1, options.stride},
          .padding = {0, options.padding},
          .dilation = {1, options.dilation},
          .ceil_mode = options.ceil_mode,
          .count_include_pad = options.count_include_pad};
}

/// Applies f to x (N, C, L) as images of height 1.
template <class F>
auto as_line(const char* name, const Tensor& x, F f) {
  const OpRange op(name);
  require<ShapeError>(x.dim() == 2 || x.dim() == 3, name, ": input ", x.shape(),
                      " is not (N, C, L)");
  return detail::squeezed(f(unsqueeze(x, -2)), -2);
}

/// Applies `planes` to all planes of x (N, C, D, H, W), and then `depth` to images (D, H W).
template <class Planes, class Depth>
auto as_planes(const char* name, const Tensor& batch, Planes planes, Depth depth) {
  const OpRange op(name);
  require<ShapeError>(batch.dim() == 4 || batch.dim() == 5, name, ": input ", batch.shape(),
                      " is not (N, C, D, H, W)");
  return detail::with_batch(batch, 5, [&](const Tensor& x) {
    const std::int64_t n = x.size(0), channels = x.size(1), d = x.size(2);
    const auto small = planes(reshape(x, {n, channels * d, x.size(3), x.size(4)}));
    const auto joined = [&](const Tensor& of_planes) {
      const std::int64_t area = of_planes.size(2) * of_planes.size(3);
      return reshape(of_planes, {n, channels, d, area});
    };
    if constexpr (std::is_same_v<decltype(planes(x)), Tensor>) {
      return unflatten(depth(joined(small)), 3, {small.size(2), small.size(3)});
    } else {
      const auto [y, at] = depth(joined(small.values));  // `at` counts in (D, H W)
      const Tensor first =
          arange(d, {.dtype = i64, .device = x.device()}) * (x.size(3) * x.size(4));
      const Tensor positions = flatten(joined(small.indices) + unsqueeze(first, 1), 2);
      const Dims plane = {small.values.size(2), small.values.size(3)};
      return ValuesAndIndices{
          unflatten(y, 3, plane),
          unflatten(reshape(gather(positions, 2, flatten(at, 2)), at.shape()), 3, plane)};
    }
  });
}

/// A pooling op in three dimensions by two of its calls in two.
template <class Pool>
auto pool3d(const char* name, const Tensor& x, Conv3dOptions::Triple kernel,
            const Pool3dOptions& options, Pool pool) {
  const auto [stride, padding, dilation, ceil_mode, count_include_pad, divisor] = options;
  const Pool2dOptions planes{
      .stride = {stride.h, stride.w},
      .padding = {padding.h, padding.w},
      .dilation = {dilation.h, dilation.w},
      .ceil_mode = ceil_mode,
      .count_include_pad = count_include_pad,
      .divisor_override = divisor ? std::optional<std::int64_t>(1) : std::nullopt};
  const Pool2dOptions depth{.stride = {stride.d, 1},
                            .padding = {padding.d, 0},
                            .dilation = {dilation.d, 1},
                            .ceil_mode = ceil_mode,
                            .count_include_pad = count_include_pad,
                            .divisor_override = divisor};
  return as_planes(
      name, x,
      [&](const Tensor& image) {
        return pool(image, {kernel.h, kernel.w}, planes);
      },
      [&](const Tensor& image) {
        return pool(image, {kernel.d, 1}, depth);
      });
}

template <class Pool>
auto adaptive_pool3d(const char* name, const Tensor& x, Conv3dOptions::Triple size, Pool pool) {
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
  const OpRange op("max_pool1d");
  return as_line("max_pool1d", x, [&](const Tensor& image) {
    return max_pool2d(image, {1, kernel}, in_2d(options));
  });
}
ValuesAndIndices max_pool1d_with_indices(const Tensor& x, std::int64_t kernel,
                                         Pool1dOptions options) {
  const OpRange op("max_pool1d_with_indices");
  return as_line(OpName::called("max_pool1d"), x, [&](const Tensor& image) {
    return max_pool2d_with_indices(image, {1, kernel}, in_2d(options));
  });
}
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, Pool1dOptions options) {
  const OpRange op("avg_pool1d");
  return as_line("avg_pool1d", x, [&](const Tensor& image) {
    return avg_pool2d(image, {1, kernel}, in_2d(options));
  });
}
Tensor lp_pool1d(const Tensor& x, double p, std::int64_t kernel, Pool1dOptions options) {
  const OpRange op("lp_pool1d");
  return as_line("lp_pool1d", x, [&](const Tensor& image) {
    return lp_pool2d(image, p, {1, kernel}, in_2d(options));
  });
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output_size) {
  const OpRange op("adaptive_avg_pool1d");
  return as_line("adaptive_avg_pool1d", x, [&](const Tensor& image) {
    return adaptive_avg_pool2d(image, {1, output_size});
  });
}
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t output_size) {
  const OpRange op("adaptive_max_pool1d");
  return as_line("adaptive_max_pool1d", x, [&](const Tensor& image) {
    return adaptive_max_pool2d(image, {1, output_size});
  });
}
ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, std::int64_t output_size) {
  const OpRange op("adaptive_max_pool1d_with_indices");
  return as_line(OpName::called("adaptive_max_pool1d"), x, [&](const Tensor& image) {
    return adaptive_max_pool2d_with_indices(image, {1, output_size});
  });
}

Tensor max_pool3d(const Tensor& x, Conv3dOptions::Triple kernel, Pool3dOptions options) {
  const OpRange op("max_pool3d");
  return pool3d("max_pool3d", x, kernel, options, max_pool2d);
}
ValuesAndIndices max_pool3d_with_indices(const Tensor& x, Conv3dOptions::Triple kernel,
                                         Pool3dOptions options) {
  const OpRange op("max_pool3d_with_indices");
  return pool3d(OpName::called("max_pool3d"), x, kernel, options, max_pool2d_with_indices);
}
Tensor avg_pool3d(const Tensor& x, Conv3dOptions::Triple kernel, Pool3dOptions options) {
  const OpRange op("avg_pool3d");
  return pool3d("avg_pool3d", x, kernel, options, avg_pool2d);
}
Tensor adaptive_avg_pool3d(const Tensor& x, Conv3dOptions::Triple output_size) {
  const OpRange op("adaptive_avg_pool3d");
  return adaptive_pool3d("adaptive_avg_pool3d", x, output_size, adaptive_avg_pool2d);
}
Tensor adaptive_max_pool3d(const Tensor& x, Conv3dOptions::Triple output_size) {
  const OpRange op("adaptive_max_pool3d");
  return adaptive_pool3d("adaptive_max_pool3d", x, output_size, adaptive_max_pool2d);
}
ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x,
                                                  Conv3dOptions::Triple output_size) {
  const OpRange op("adaptive_max_pool3d_with_indices");
  return adaptive_pool3d(OpName::called("adaptive_max_pool3d"), x, output_size,
                         adaptive_max_pool2d_with_indices);
}

}  // namespace rondo
