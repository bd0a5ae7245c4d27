// An image is resized along one dimension after the other. Each element of the result is a weighted
// mean of 1, 2 or 4 neighbours: a copy by index_select, or a product with a sparse matrix, whose
// transpose gives the gradient.

#include "autograd/ops/interpolate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// How one dimension is resized.
struct ResizedAxis {
  std::int64_t in, out;
  double scale;  // input elements per output element; a given factor need not be out / in
  bool align_corners;

  /// The places of the output's elements between the input's elements, in f64.
  Tensor places(Device device) const {
    const Tensor i = arange(out, {.dtype = f64, .device = device});
    if (!align_corners) return (i + 0.5) * scale - 0.5;
    return i * static_cast<double>(in - 1) /
           static_cast<double>(std::max<std::int64_t>(out - 1, 1));
  }
};

/// Keys' cubic with a = -0.75: the weights of the elements at -1, 0, 1 and 2, for a place t after
/// 0.
std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  constexpr double a = -0.75;
  const auto near = [](const Tensor& d) { return ((d * (a + 2) - (a + 3)) * d) * d + 1; };
  const auto far = [](const Tensor& d) { return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// The weighted means of a resized dimension: a sparse matrix (out, in) with `taps` elements in
/// each row.
struct WeightedMeans {
  std::int64_t taps, in, out;
  Tensor index, weight;              // (out, taps): i64, f64
  CompressedRows matrix, transpose;  // the latter only with has_gradient

  WeightedMeans(const ResizedAxis& axis, bool cubic, const Tensor& x, bool has_gradient)
      : taps(cubic ? 4 : 2), in(axis.in), out(axis.out) {
    const Device device = x.device();
    const Tensor any_place = axis.places(device);
    const Tensor place = cubic ? any_place : clamp_min(any_place, 0.0);
    const Tensor first = floor(place), t = place - first;
    const Tensors weights = [&]() -> Tensors {
      if (!cubic) return {1 - t, t};
      const auto [a, b, c, d] = cubic_weights(t);
      return {a, b, c, d};
    }();
    Tensors indices;
    for (std::int64_t k = 0; k < taps; ++k)
      indices.push_back(clamp(to(first, i64) + (cubic ? k - 1 : k), 0, in - 1));
    index = stack(indices, 1);
    weight = stack(weights, 1);

    const TensorOptions whole = {.dtype = i64, .device = device};
    const Tensor columns = reshape(index, {-1}), values = to(reshape(weight, {-1}), x.dtype());
    matrix = {arange(out + 1, whole) * taps, columns, values};
    if (!has_gradient) return;
    const auto [sorted, order] = sort(columns);
    const Tensor counts = index_add(zeros({in}, whole), 0, columns, ones({out * taps}, whole));
    transpose = {cat({zeros({1}, whole), cumsum(counts, 0)}), floor_divide(order, taps),
                 index_select(values, 0, order)};
  }
};

/// The sparse matrix times x along dim; with `transposed`, its transpose.
Tensor times_x(const std::shared_ptr<const WeightedMeans>& means, bool transposed,
               const Tensor& any_x, std::int64_t dim);

/// The product is linear, and so are its derivatives.
struct WeightedMeansBackward final : Node {
  std::shared_ptr<const WeightedMeans> means;
  bool transposed;
  std::int64_t dim;

  WeightedMeansBackward(std::shared_ptr<const WeightedMeans> means, bool transposed,
                        std::int64_t dim)
      : means(std::move(means)), transposed(transposed), dim(dim) {}
  const char* name() const override { return "interpolate"; }
  Tensors backward(const Tensors& dy) override { return {times_x(means, !transposed, dy[0], dim)}; }
};

Tensor times_x(const std::shared_ptr<const WeightedMeans>& means, bool transposed,
               const Tensor& any_x, std::int64_t dim) {
  const MemoryFormat format = any_x.suggested_format();
  const Tensor x = contiguous(any_x, format);
  Dims sizes = x.shape();
  sizes[dim] = transposed ? means->in : means->out;
  const Tensor y =
      Tensor::empty(sizes, {.dtype = x.dtype(), .device = x.device(), .format = format});
  if (y.numel() > 0) {
    std::int64_t inner = format == MemoryFormat::channels_last ? x.size(1) : 1;
    for (std::int64_t d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
    const auto lines = [&](const Tensor& t) {
      const std::int64_t n = t.size(dim);
      return t.as_view({t.numel() / (n * inner), n, inner}, {n * inner, inner, 1},
                       t.storage_offset());
    };
    const NoGradGuard no_grad;
    backend(x).sparse_product(transposed ? means->transpose : means->matrix, lines(x), lines(y));
  }
  return record<WeightedMeansBackward>({x}, y, means, transposed, dim);
}

/// x resized along dim by the weighted means of 2 (4) neighbours.
Tensor resampled(const Tensor& x, std::int64_t dim, const ResizedAxis& axis, bool cubic) {
  const bool has_gradient = GradMode::is_enabled() && x.requires_grad() && !TraceMode::is_enabled();
  const auto means =
      no_grad([&] { return std::make_shared<const WeightedMeans>(axis, cubic, x, has_gradient); });
  if (!TraceMode::is_enabled()) return times_x(means, false, x, dim);
  // Readers of graphs know index_select.
  Tensor y;
  for (std::int64_t k = 0; k < means->taps; ++k) {
    Dims line = Dims::filled(x.dim(), 1);
    line[dim] = axis.out;
    const Tensor weight =
        no_grad([&] { return reshape(to(select(means->weight, 1, k), x.dtype()), line); });
    const Tensor part = index_select(x, dim, select(means->index, 1, k)) * weight;
    y = k == 0 ? part : y + part;
  }
  return y;
}

Tensor nearest_index(const ResizedAxis& axis, bool exact, Device device) {
  const NoGradGuard no_grad;
  const auto scale = static_cast<float>(axis.scale);  // PyTorch rounds it, and so picks the same
  const Tensor i = arange(axis.out, {.dtype = f32, .device = device});
  return clamp_max(to(floor((i + (exact ? 0.5 : 0.0)) * scale), i64), axis.in - 1);
}

/// Element coordinates of grid places (-1 … 1) in a dimension of n elements.
Tensor unnormalized(const Tensor& place, std::int64_t n, bool align_corners) {
  const auto size = static_cast<double>(n);
  return align_corners ? (place + 1) * ((size - 1) / 2) : ((place + 1) * size - 1) / 2;
}

/// Coordinates mirrored at the borders until they lie inside.
Tensor reflected(const Tensor& place, std::int64_t n, bool align_corners) {
  const double low = align_corners ? 0 : -0.5,
               span = static_cast<double>(n) - (align_corners ? 1 : 0);
  if (span <= 0) return place * 0;
  const Tensor from_low = abs(place - low);
  const Tensor flips = floor(from_low / span);
  const Tensor extra = from_low - flips * span;
  const Tensor is_odd = flips - floor(flips / 2) * 2 >= 1;
  return where(is_odd, span - extra, extra) + low;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  const OpRange op("interpolate");
  const std::string mode(options.mode);
  const std::int64_t spatial = x.dim() - 2;
  const bool nearest = mode == "nearest" || mode == "nearest-exact", cubic = mode == "bicubic",
             area = mode == "area";
  require(nearest || cubic || area || mode == "linear" || mode == "bilinear" || mode == "trilinear",
          "interpolate: mode = \"", mode,
          "\"; there are nearest, nearest-exact, area, linear, bilinear, bicubic and trilinear");
  const std::int64_t wanted = mode == "linear"      ? 1
                              : mode == "trilinear" ? 3
                              : nearest || area     ? spatial
                                                    : 2;
  require<ShapeError>(spatial == wanted && spatial >= 1 && spatial <= 3,
                      "interpolate: a tensor of ", x.shape(), " does not fit the mode ", mode,
                      ", which needs ", nearest || area ? "3 to 5" : std::to_string(wanted + 2),
                      " dimensions");
  require(!(nearest || area) || !options.align_corners, "interpolate: align_corners is not for ",
          mode);
  require_float(x, "interpolate");
  const std::vector<double>& factors = options.scale_factor;
  require(options.size.empty() != factors.empty(),
          "interpolate: expected either size or scale_factor: {.size = {height, width}} or "
          "{.scale_factor = 2}");
  const std::int64_t given =
      factors.empty() ? options.size.size() : static_cast<std::int64_t>(factors.size());
  require(given == spatial || (!factors.empty() && given == 1), "interpolate: ", given,
          factors.empty() ? " sizes" : " factors", " for ", spatial, " dimensions");
  const double factor = factors.size() == 1 ? factors[0] : 0;
  if (mode == "nearest" && spatial == 2 && (factor == 2 || factor == 4))  // usual, and faster
    return upsample_nearest2d(x, static_cast<std::int64_t>(factor));
  const auto axis_of = [&](std::int64_t d) {
    const std::int64_t in = x.size(d + 2);
    ResizedAxis axis{in, 0, 0, options.align_corners};
    if (factors.empty()) {
      axis.out = options.size[d];
      axis.scale = static_cast<double>(in) / static_cast<double>(axis.out);
    } else {
      const double factor = factors[given == 1 ? 0 : static_cast<std::size_t>(d)];
      require(factor > 0 && std::isfinite(factor), "interpolate: scale_factor ", factor,
              " is not a positive number");
      const double out = std::floor(static_cast<double>(in) * factor);
      require<ShapeError>(out < 0x1p63, "interpolate: ", in, " elements times ", factor,
                          " are beyond the largest size, 2^63 - 1");
      axis.out = static_cast<std::int64_t>(out);
      axis.scale = 1 / factor;
      // Factors of such sizes count for PyTorch's kernels only where they are exact.
      const bool nearest2d = mode == "nearest" && spatial == 2;
      if (axis.out == in && (nearest2d || !(nearest || cubic))) axis.scale = 1;
      if (axis.out == 2 * in && nearest2d) axis.scale = 0.5;
    }
    require<ShapeError>(in > 0 && axis.out > 0, "interpolate: cannot resize ", in, " elements to ",
                        axis.out, " in dimension ", d + 2);
    return axis;
  };
  if (area) {
    if (spatial == 1) return adaptive_avg_pool1d(x, axis_of(0).out);
    if (spatial == 2) return adaptive_avg_pool2d(x, {axis_of(0).out, axis_of(1).out});
    return adaptive_avg_pool3d(x, {axis_of(0).out, axis_of(1).out, axis_of(2).out});
  }
  Tensor y = widened(x);
  for (std::int64_t d = spatial - 1; d >= 0; --d) {  // the last first, as PyTorch rounds
    const ResizedAxis axis = axis_of(d);
    y = nearest ? index_select(y, d + 2, nearest_index(axis, mode == "nearest-exact", x.device()))
                : resampled(y, d + 2, axis, cubic);
  }
  return to(y, x.dtype());
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  const OpRange op("grid_sample");
  require<ShapeError>(
      x.dim() == 4 && grid.dim() == 4 && grid.size(-1) == 2 && grid.size(0) == x.size(0),
      "grid_sample: expected x (N, C, H, W) and grid (N, P, Q, 2), got ", x.shape(), " and ",
      grid.shape());
  require_float(x, "grid_sample");
  require<DTypeError>(grid.dtype() == x.dtype(), "grid_sample: the grid is ", grid.dtype(),
                      ", x is ", x.dtype());
  const std::string mode(options.mode), padding(options.padding_mode);
  require(mode == "bilinear" || mode == "nearest", "grid_sample: mode = \"", mode,
          "\"; there are bilinear and nearest");
  require(padding == "zeros" || padding == "border" || padding == "reflection",
          "grid_sample: padding_mode = \"", padding, "\"; there are zeros, border and reflection");
  const std::int64_t images = x.size(0), channels = x.size(1), h = x.size(2), w = x.size(3),
                     places = grid.size(1) * grid.size(2);
  require<ShapeError>(h > 0 && w > 0, "grid_sample: the image ", x.shape(), " has no elements");
  const Tensor flat = reshape(widened(x), {images, channels, h * w});
  const Tensor wide_grid = widened(grid);
  const auto coordinate = [&](std::int64_t which, std::int64_t n) {
    Tensor at = unnormalized(select(wide_grid, -1, which), n, options.align_corners);
    if (padding == "reflection") at = reflected(at, n, options.align_corners);
    if (padding != "zeros")
      at = hardtanh(at, 0, static_cast<double>(n - 1));  // no gradient at the border
    return reshape(at, {images, 1, places});
  };
  const Tensor column = coordinate(0, w), row = coordinate(1, h);
  // The image at whole coordinates; 0 outside.
  const auto pixels = [&](const Tensor& at_row, const Tensor& at_column) {
    const auto [index, inside] = no_grad([&] {
      const Tensor in = logical_and(logical_and(ge(at_row, 0), le(at_row, h - 1)),
                                    logical_and(ge(at_column, 0), le(at_column, w - 1)));
      const auto whole = [&](const Tensor& at) { return to(where(in, at, 0.0), i64); };
      const Tensor position = whole(at_row) * w + whole(at_column);
      return std::pair{expand(position, {images, channels, places}), in};
    });
    return where(inside, gather(flat, 2, index), 0.0);
  };
  Tensor y;
  if (mode == "nearest") {
    y = pixels(round(row), round(column));
  } else {
    const Tensor top = floor(row), left = floor(column);
    const Tensor down = row - top, right = column - left;  // the weights of the next elements
    const Tensor up = 1 - down, stay = 1 - right;
    y = pixels(top, left) * (up * stay) + pixels(top, left + 1) * (up * right) +
        pixels(top + 1, left) * (down * stay) + pixels(top + 1, left + 1) * (down * right);
  }
  return to(reshape(y, {images, channels, grid.size(1), grid.size(2)}), x.dtype());
}

Tensor affine_grid(const Tensor& theta, const Dims& size, AffineGridOptions options) {
  const OpRange op("affine_grid");
  require<ShapeError>(size.size() == 4 && theta.shape() == Dims{size[0], 2, 3},
                      "affine_grid: theta ", theta.shape(), " and size ", size,
                      "; expected (N, 2, 3) and (N, C, H, W)");
  require_float(theta, "affine_grid");
  const auto places = [&](std::int64_t n) {
    require<ShapeError>(n > 0, "affine_grid: size ", size, " has no elements");
    const double edge = n == 1 ? 0 : options.align_corners ? 1 : 1 - 1 / static_cast<double>(n);
    return linspace(-edge, edge, n, theta.options());
  };
  const Tensors rows_and_columns = meshgrid({places(size[2]), places(size[3])});
  const Tensor& column = rows_and_columns[1];
  const Tensor place = stack({column, rows_and_columns[0], ones_like(column)}, -1);  // (H, W, 3)
  return reshape(matmul(reshape(place, {-1, 3}), transpose(theta, 1, 2)),
                 {size[0], size[2], size[3], 2});
}

}  // namespace rondo
