// Pooling over the planes of x (N, C, H, W): maximum, average, adaptive average, and their backward
// passes.
//
// Every kernel iterates over pairs (input pixel, output pixel) of one plane, and does the same work
// for each pair in a run of channels. If channels are contiguous (channels_last), a run has up to
// 64 channels and vectorises. In the contiguous layout a run has 8 planes, whose additions and
// comparisons are independent of each other. So one loop nest serves both layouts, and each number
// is computed in the same order in both. Threads divide the pairs (image, run of channels): no two
// threads write the same plane.
//
// Only the sums of large windows are divided into partial sums, by the pixel's number, in both
// layouts (sum_lanes).
//
// Average and adaptive average pooling differ only in their windows, which are computed once per
// row and per column before the loops.

#include <algorithm>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t tile = 64, planes_together = 8;  // channels in one run, for each layout

/// A 4-dim tensor as typed memory with strides; `together`: channels are contiguous.
template <class T, bool together>
struct Planes {
  T* data;
  std::int64_t n, c, h, w;

  explicit Planes(const Tensor& x)
      : data(x.data_ptr<T>()),
        n(x.strides()[0]),
        c(x.strides()[1]),
        h(x.strides()[2]),
        w(x.strides()[3]) {}
  T* at(std::int64_t image, std::int64_t channel) const { return data + image * n + channel * c; }
  /// The offset from one channel to the k-th after it.
  std::int64_t channel(std::int64_t k) const { return together ? k : k * c; }
};

/// Whether channels should be the inner loop: they are the fastest dimension of every tensor.
template <class... Ts>
bool channels_fastest(const Ts&... tensors) {
  return ((tensors.strides()[1] == 1) && ...) && ((tensors.shape()[1] > 1) && ...);
}

/// Calls f.operator()<together>() according to the tensors' layout.
template <class F, class... Ts>
void visit_layout(const F& f, const Ts&... tensors) {
  channels_fastest(tensors...) ? f.template operator()<true>() : f.template operator()<false>();
}

template <std::int64_t count, class F>
void for_planes(std::int64_t image, std::int64_t first, std::int64_t last, const F& f) {
  for (; first + count <= last; first += count)
    f(image, first, std::integral_constant<std::int64_t, count>());
  if constexpr (count > 1) for_planes<count / 2>(image, first, last, f);
}

/// Calls f(image, first channel, channels) for all runs of channels, in parallel. The number of
/// planes is a compile-time constant, 8 and at the end 4, 2 and 1, so that each plane's values can
/// stay in a register.
template <bool together, class F>
void for_each_run(const Tensor& x, std::int64_t work, const F& f) {
  const std::int64_t images = x.shape()[0], channels = x.shape()[1];
  const std::int64_t run = together ? tile : planes_together, runs = (channels + run - 1) / run;
#pragma omp parallel for schedule(static) if (work >= parallel_grain && images * runs > 1)
  for (std::int64_t task = 0; task < images * runs; ++task) {
    const std::int64_t image = task / runs, first = task % runs * run;
    const std::int64_t last = std::min(first + run, channels);
    if constexpr (together)
      f(image, first, last - first);
    else
      for_planes<planes_together>(image, first, last, f);
  }
}

/// Runs `accumulate(wide)` with dx itself if it is f32 or f64. Otherwise uses an f32 copy and
/// rounds it into dx once, however many windows contributed to an element.
template <class F>
void in_wide(CpuBackend& backend, const Tensor& dx, const char* op, const F& accumulate) {
  if (dx.dtype() == DType::f64 || dx.dtype() == DType::f32) return accumulate(dx);
  require<DTypeError>(is_floating(dx.dtype()), op, ": expected a floating-point dtype, got ",
                      dx.dtype());
  const Tensor wide =
      Tensor::empty(dx.shape(), {.dtype = DType::f32, .format = dx.suggested_format()});
  backend.do_copy(dx, wide);
  accumulate(wide);
  backend.do_copy(wide, dx);
}

/// The window that an output row (or column) averages: rows begin … end-1 of x, divided by
/// `extent`.
struct PoolWindow {
  std::int64_t begin, end, extent;
};

std::vector<PoolWindow> sliding_windows(std::int64_t outputs, std::int64_t inputs,
                                        std::int64_t kernel, std::int64_t stride,
                                        std::int64_t pad) {
  std::vector<PoolWindow> windows;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t begin = i * stride - pad;
    // Includes padding, but nothing beyond it (ceil-mode windows may reach further).
    const std::int64_t end = std::min(begin + kernel, inputs + pad);
    windows.push_back({std::max<std::int64_t>(begin, 0), std::min(end, inputs), end - begin});
  }
  return windows;
}

std::vector<PoolWindow> adaptive_windows(std::int64_t outputs, std::int64_t inputs) {
  std::vector<PoolWindow> windows;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t begin = i * inputs / outputs;
    const std::int64_t end = ((i + 1) * inputs + outputs - 1) / outputs;
    windows.push_back({begin, end, end - begin});
  }
  return windows;
}

struct WindowGrid {
  std::vector<PoolWindow> rows, columns;
  bool count_padding;

  double divisor(const PoolWindow& row, const PoolWindow& column) const {
    return count_padding ? static_cast<double>(row.extent) * static_cast<double>(column.extent)
                         : static_cast<double>(row.end - row.begin) *
                               static_cast<double>(column.end - column.begin);
  }
};

WindowGrid windows_of(const Tensor& x, const Tensor& y, const Pool2dParams& p) {
  return {sliding_windows(y.shape()[2], x.shape()[2], p.kernel_h, p.stride_h, p.pad_h),
          sliding_windows(y.shape()[3], x.shape()[3], p.kernel_w, p.stride_w, p.pad_w),
          p.count_include_pad};
}

WindowGrid adaptive_windows_of(const Tensor& x, const Tensor& y) {
  return {adaptive_windows(y.shape()[2], x.shape()[2]),
          adaptive_windows(y.shape()[3], x.shape()[3]), false};
}

constexpr std::int64_t lanes = 16;  // partial sums of a large window

/// sum[c] = the sum of a window, in each of `channels` planes. Its i-th pixel goes to partial sum
/// i % lanes, so that additions do not wait for each other.
template <class T, bool together, class C, class Count>
void sum_lanes(const Planes<T, together>& x, const T* in, const PoolWindow& rows,
               const PoolWindow& columns, Count channels, C* sum) {
  // Channels that are added side by side.
  const std::int64_t run = together ? std::min<std::int64_t>(tile, channels) : 1;
  const std::int64_t width = columns.end - columns.begin, height = rows.end - rows.begin;
  const T* corner = in + rows.begin * x.h + columns.begin * x.w;
  for (std::int64_t first = 0; first < channels; first += run) {
    const std::int64_t count = std::min<std::int64_t>(run, channels - first);
    std::array<C, lanes*(together ? tile : 1)> part;
    std::fill_n(part.begin(), lanes * run, C(0));
    const T* plane = corner + x.channel(first);
    if (!together && x.w == 1 && (x.h == width || height == 1)) {  // a run of memory
      std::int64_t i = 0;
      for (; i + lanes <= height * width; i += lanes)
        for (std::int64_t k = 0; k < lanes; ++k) part[k] += static_cast<C>(plane[i + k]);
      for (std::int64_t k = 0; i < height * width; ++i, ++k) part[k] += static_cast<C>(plane[i]);
    } else {
      std::int64_t i = 0;
      for (std::int64_t h = 0; h < height; ++h) {
        for (std::int64_t w = 0; w < width; ++w, ++i) {
          const T* pixel = plane + h * x.h + w * x.w;
          C* to = &part[i % lanes * run];
          for (std::int64_t c = 0; c < count; ++c) to[c] += static_cast<C>(pixel[c]);
        }
      }
    }
    for (std::int64_t half = lanes / 2; half > 0; half /= 2)
      for (std::int64_t k = 0; k < half * run; ++k) part[k] += part[k + half * run];
    std::copy_n(part.begin(), count, sum + first);
  }
}

template <class T, bool together>
void average(const Tensor& x_tensor, const Tensor& y_tensor, const WindowGrid& windows) {
  using C = Compute<T>;
  const Planes<T, together> x(x_tensor), y(y_tensor);
  auto pool_run = [&](std::int64_t image, std::int64_t channel, auto channels) {
    const T* in = x.at(image, channel);
    T* out = y.at(image, channel);
    std::array<C, tile> sum;
    for (std::size_t p = 0; p < windows.rows.size(); ++p) {
      for (std::size_t q = 0; q < windows.columns.size(); ++q) {
        const PoolWindow &rows = windows.rows[p], &columns = windows.columns[q];
        if ((rows.end - rows.begin) * (columns.end - columns.begin) >= 2 * lanes) {
          sum_lanes(x, in, rows, columns, channels, sum.data());
        } else {
          std::fill_n(sum.data(), channels, C(0));
          for (std::int64_t h = rows.begin; h < rows.end; ++h) {
            for (std::int64_t w = columns.begin; w < columns.end; ++w) {
              const T* pixel = in + h * x.h + w * x.w;
              for (std::int64_t c = 0; c < channels; ++c)
                sum[c] += static_cast<C>(pixel[x.channel(c)]);
            }
          }
        }
        const C divisor = static_cast<C>(windows.divisor(rows, columns));
        T* pixel = out + static_cast<std::int64_t>(p) * y.h + static_cast<std::int64_t>(q) * y.w;
        for (std::int64_t c = 0; c < channels; ++c)
          pixel[y.channel(c)] = static_cast<T>(sum[c] / divisor);
      }
    }
  };
  for_each_run<together>(x_tensor, std::max(x_tensor.numel(), y_tensor.numel()), pool_run);
}

void average(const Tensor& x, const Tensor& y, const WindowGrid& windows) {
  visit_float(x.dtype(), "avg_pool2d", [&]<class T>() {
    visit_layout([&]<bool together>() { average<T, together>(x, y, windows); }, x, y);
  });
}

template <class C>
void add_to_row(C* row, std::int64_t step, const PoolWindow& columns, C share) {
  if (step == 1) {
    for (std::int64_t w = columns.begin; w < columns.end; ++w) row[w] += share;
  } else {
    for (std::int64_t w = columns.begin; w < columns.end; ++w) row[w * step] += share;
  }
}

template <class T, bool together>
void average_backward(const Tensor& dy_tensor, const Tensor& dx_tensor, const WindowGrid& windows) {
  using C = Compute<T>;
  const Planes<C, together> dx(dx_tensor);
  const Planes<T, together> dy(dy_tensor);
  auto spread_run = [&](std::int64_t image, std::int64_t channel, auto channels) {
    const T* in = dy.at(image, channel);
    C* out = dx.at(image, channel);
    std::array<C, tile> share;
    for (std::size_t p = 0; p < windows.rows.size(); ++p) {
      for (std::size_t q = 0; q < windows.columns.size(); ++q) {
        const PoolWindow &rows = windows.rows[p], &columns = windows.columns[q];
        const C divisor = static_cast<C>(windows.divisor(rows, columns));
        const T* pixel =
            in + static_cast<std::int64_t>(p) * dy.h + static_cast<std::int64_t>(q) * dy.w;
        for (std::int64_t c = 0; c < channels; ++c)
          share[c] = static_cast<C>(pixel[dy.channel(c)]) / divisor;
        if (!together && columns.end - columns.begin >= 8) {  // plane by plane, along the rows
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t h = rows.begin; h < rows.end; ++h)
              add_to_row(out + dx.channel(c) + h * dx.h, dx.w, columns, share[c]);
          continue;
        }
        for (std::int64_t h = rows.begin; h < rows.end; ++h) {
          for (std::int64_t w = columns.begin; w < columns.end; ++w) {
            C* to = out + h * dx.h + w * dx.w;
            for (std::int64_t c = 0; c < channels; ++c) to[dx.channel(c)] += share[c];
          }
        }
      }
    }
  };
  for_each_run<together>(dx_tensor, dx_tensor.numel(), spread_run);
}

void average_backward(const Tensor& dy, const Tensor& dx, const WindowGrid& windows) {
  visit_float(dy.dtype(), "avg_pool2d_backward", [&]<class T>() {
    visit_layout([&]<bool together>() { average_backward<T, together>(dy, dx, windows); }, dx, dy);
  });
}

/// Calls f(x element, y element) for every element of y and the element of x at its index. For
/// max_pool2d_backward and its transpose.
template <class X, class Y, bool together, class F>
void for_each_maximum(const Tensor& x_tensor, const Tensor& y_tensor, const Tensor& indices,
                      const F& f) {
  const Planes<X, together> x(x_tensor);
  const Planes<Y, together> y(y_tensor);
  const Planes<std::int64_t, together> index(indices);
  const std::int64_t width = x_tensor.shape()[3];
  // If rows are contiguous, the index is used directly, without a division.
  const bool flat = x.h == width * x.w;
  const std::int64_t rows = y_tensor.shape()[2], columns = y_tensor.shape()[3];
  auto run = [&](std::int64_t image, std::int64_t channel, auto channels) {
    X* plane = x.at(image, channel);
    for (std::int64_t p = 0; p < rows; ++p) {
      for (std::int64_t q = 0; q < columns; ++q) {
        Y* out = y.at(image, channel) + p * y.h + q * y.w;
        const std::int64_t* which = index.at(image, channel) + p * index.h + q * index.w;
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t i = which[index.channel(c)];
          const std::int64_t pixel = flat ? i * x.w : i / width * x.h + i % width * x.w;
          f(plane[x.channel(c) + pixel], out[y.channel(c)]);
        }
      }
    }
  };
  for_each_run<together>(x_tensor, y_tensor.numel(), run);
}

template <class X, class Y, class F>
void for_each_maximum(const Tensor& x, const Tensor& y, const Tensor& indices, const F& f) {
  visit_layout([&]<bool together>() { for_each_maximum<X, Y, together>(x, y, indices, f); }, x, y,
               indices);
}

/// Computes one output pixel of max_pool2d for a run of channels. best and where start at the
/// window's first pixel. A later pixel wins if it is larger or NaN, so the first of equal pixels
/// stays.
template <class T, bool together>
void max_window(const T* in, const Planes<T, together>& x, const PoolWindow& rows,
                const PoolWindow& columns, std::int64_t width, std::int64_t channels,
                Compute<T>* best, std::int32_t* where) {
  using C = Compute<T>;
  std::fill_n(best, channels, -std::numeric_limits<C>::infinity());
  std::fill_n(where, channels, static_cast<std::int32_t>(rows.begin * width + columns.begin));
  for (std::int64_t h = rows.begin; h < rows.end; ++h) {
    for (std::int64_t w = columns.begin; w < columns.end; ++w) {
      const T* pixel = in + h * x.h + w * x.w;
      const auto here = static_cast<std::int32_t>(h * width + w);
      std::array<C, tile> side_by_side;  // so that the comparisons vectorise
      const C* v = side_by_side.data();
      if constexpr (together && std::is_same_v<T, C>) {
        v = pixel;
      } else {
        for (std::int64_t c = 0; c < channels; ++c)
          side_by_side[c] = static_cast<C>(pixel[x.channel(c)]);
      }
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        const bool wins = (v[c] > best[c]) | (v[c] != v[c]);
        best[c] = wins ? v[c] : best[c];
        where[c] = wins ? here : where[c];
      }
    }
  }
}

template <class T, bool together>
void max_pool(const Tensor& x_tensor, const Tensor& y_tensor, const Tensor& indices,
              const WindowGrid& windows) {
  const Planes<T, together> x(x_tensor), y(y_tensor);
  const Planes<std::int64_t, together> index(indices);
  const std::int64_t width = x_tensor.shape()[3];
  auto pool_run = [&](std::int64_t image, std::int64_t channel, std::int64_t channels) {
    std::array<Compute<T>, tile> best;
    std::array<std::int32_t, tile> where;  // as wide as a float, to vectorise alike
    for (std::int64_t p = 0; p < y_tensor.shape()[2]; ++p) {
      for (std::int64_t q = 0; q < y_tensor.shape()[3]; ++q) {
        max_window<T>(x.at(image, channel), x, windows.rows[p], windows.columns[q], width, channels,
                      best.data(), where.data());
        T* out = y.at(image, channel) + p * y.h + q * y.w;
        std::int64_t* which = index.at(image, channel) + p * index.h + q * index.w;
        for (std::int64_t c = 0; c < channels; ++c) {
          out[y.channel(c)] = static_cast<T>(best[c]);
          which[index.channel(c)] = where[c];
        }
      }
    }
  };
  for_each_run<together>(x_tensor, x_tensor.numel(), pool_run);
}

}  // namespace

void CpuBackend::do_max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                               const Pool2dParams& params) {
  const std::int64_t height = x.shape()[2], width = x.shape()[3];
  require<ShapeError>(height * width <= std::numeric_limits<std::int32_t>::max(),
                      "max_pool2d: a plane of ", height, " x ", width, " has too many pixels");
  const WindowGrid windows = windows_of(x, y, params);
  visit_float(x.dtype(), "max_pool2d", [&]<class T>() {
    visit_layout([&]<bool together>() { max_pool<T, together>(x, y, indices, windows); }, x, y,
                 indices);
  });
}

void CpuBackend::do_max_pool2d_backward(const Tensor& dy, const Tensor& indices,
                                        const Pool2dParams&, const Tensor& dx) {
  do_fill(dx, 0);
  in_wide(*this, dx, "max_pool2d_backward", [&](const Tensor& wide) {
    visit_float(dy.dtype(), "max_pool2d_backward", [&]<class T>() {
      using C = Compute<T>;
      for_each_maximum<C, T>(wide, dy, indices, [](C& at, T g) { at += static_cast<C>(g); });
    });
  });
}

void CpuBackend::do_max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) {
  visit_float(x.dtype(), "max_pool2d_gather", [&]<class T>() {
    for_each_maximum<T, T>(x, y, indices, [](T at, T& out) { out = at; });
  });
}

void CpuBackend::do_avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) {
  average(x, y, windows_of(x, y, params));
}

void CpuBackend::do_avg_pool2d_backward(const Tensor& dy, const Tensor& dx,
                                        const Pool2dParams& params) {
  do_fill(dx, 0);
  in_wide(*this, dx, "avg_pool2d_backward",
          [&](const Tensor& wide) { average_backward(dy, wide, windows_of(wide, dy, params)); });
}

void CpuBackend::do_adaptive_avg_pool2d(const Tensor& x, const Tensor& y) {
  average(x, y, adaptive_windows_of(x, y));
}

void CpuBackend::do_adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) {
  do_fill(dx, 0);
  in_wide(*this, dx, "adaptive_avg_pool2d_backward",
          [&](const Tensor& wide) { average_backward(dy, wide, adaptive_windows_of(wide, dy)); });
}

}  // namespace rondo::cpu
