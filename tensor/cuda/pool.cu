// Pooling over the planes of x (N, C, H, W). Forward, a thread makes one output from its window.
// Backward, a thread makes one element of dx from all windows that it lies in (average), or walks
// one plane (maximum, whose windows are known by their indices alone): never do two threads add to
// one element, so the sums are the same in every run.

#include <cmath>
#include <limits>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

/// A tensor (N, C, H, W) by its coordinates.
struct Planes {
  char* data;
  DType dtype;
  std::int64_t n, c, h, w;  // bytes

  explicit Planes(const Tensor& x)
      : data(static_cast<char*>(x.data_ptr())),
        dtype(x.dtype()),
        n(x.strides()[0] * size_of(dtype)),
        c(x.strides()[1] * size_of(dtype)),
        h(x.strides()[2] * size_of(dtype)),
        w(x.strides()[3] * size_of(dtype)) {}
  RONDO_HD char* at(std::int64_t image, std::int64_t channel, std::int64_t row = 0,
                    std::int64_t column = 0) const {
    return data + image * n + channel * c + row * h + column * w;
  }
};

/// The coordinates of element i of a tensor, in the order of its memory.
struct Coordinates {
  Divisor channels, rows, columns;
  bool channels_last;

  explicit Coordinates(const Tensor& x)
      : channels(x.shape()[1]),
        rows(x.shape()[2]),
        columns(x.shape()[3]),
        channels_last(x.strides()[1] == 1 && x.shape()[1] > 1) {}

  struct Place {
    std::int64_t image, channel, row, column;
  };
  RONDO_HD Place operator()(std::int64_t i) const {
    Place p;
    auto take = [&](const Divisor& size, std::int64_t& coordinate) {
      const std::int64_t rest = size.divide(i);
      coordinate = i - rest * size.value();
      i = rest;
    };
    if (channels_last) {
      take(channels, p.channel);
      take(columns, p.column);
      take(rows, p.row);
    } else {
      take(columns, p.column);
      take(rows, p.row);
      take(channels, p.channel);
    }
    p.image = i;
    return p;
  }
};

/// What an output row (or column) averages over: begin … end-1 of the input, out of `extent`.
struct Window {
  std::int64_t begin, end, extent;
};

/// The windows along one dimension: sliding ones, or adaptive ones (stride 0).
struct Axis {
  std::int64_t inputs, outputs, kernel = 0, stride = 0, pad = 0;

  RONDO_HD Window window(std::int64_t i) const {
    if (stride == 0) {
      const std::int64_t begin = i * inputs / outputs;
      const std::int64_t end = ((i + 1) * inputs + outputs - 1) / outputs;
      return {begin, end, end - begin};
    }
    const std::int64_t begin = i * stride - pad, reach = begin + kernel;
    // Counted with padding, but not beyond it (ceil-mode windows may reach further).
    const std::int64_t end = reach < inputs + pad ? reach : inputs + pad;
    return {begin > 0 ? begin : 0, end < inputs ? end : inputs, end - begin};
  }
  /// Outputs first … last - 1 are all whose windows may hold input i.
  RONDO_HD void outputs_over(std::int64_t i, std::int64_t& first, std::int64_t& last) const {
    if (stride == 0) {
      first = i * outputs / inputs;
      last = ((i + 1) * outputs + inputs - 1) / inputs;
    } else {
      const std::int64_t from = i + pad - kernel + 1;
      first = from > 0 ? (from + stride - 1) / stride : 0;
      last = (i + pad) / stride + 1;
    }
    if (last > outputs) last = outputs;
  }
};

Axis rows_of(const Tensor& x, const Tensor& y, const Pool2dParams& p) {
  return {x.shape()[2], y.shape()[2], p.kernel_h, p.stride_h, p.pad_h};
}
Axis columns_of(const Tensor& x, const Tensor& y, const Pool2dParams& p) {
  return {x.shape()[3], y.shape()[3], p.kernel_w, p.stride_w, p.pad_w};
}
constexpr Pool2dParams adaptive{
    .kernel_h = 0, .kernel_w = 0, .stride_h = 0, .stride_w = 0, .count_include_pad = false};

template <class C>
RONDO_HD C divisor(const Window& row, const Window& column, bool count_padding) {
  return count_padding
             ? static_cast<C>(row.extent) * static_cast<C>(column.extent)
             : static_cast<C>(row.end - row.begin) * static_cast<C>(column.end - column.begin);
}

template <class C>
struct MaxPool {
  Planes x, y, indices;
  Coordinates outputs;
  Axis rows, columns;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, p, q] = outputs(i);
    const Window row = rows.window(p), column = columns.window(q);
    C best = -std::numeric_limits<C>::infinity();
    std::int64_t where = row.begin * columns.inputs + column.begin;
    for (std::int64_t h = row.begin; h < row.end; ++h) {
      for (std::int64_t w = column.begin; w < column.end; ++w) {
        const C v = load<C>(x.dtype, x.at(image, channel, h, w));
        if (v > best || v != v) {  // the first of equals stays
          best = v;
          where = h * columns.inputs + w;
        }
      }
    }
    store(y.dtype, y.at(image, channel, p, q), best);
    *reinterpret_cast<std::int64_t*>(indices.at(image, channel, p, q)) = where;
  }
};

/// Adds one plane of dy into dx.
template <class C>
struct MaxPoolBackward {
  Planes dy, indices, dx;
  std::int64_t channels, rows, columns, width;
  RONDO_HD void operator()(std::int64_t plane) const {
    const std::int64_t image = plane / channels, channel = plane - image * channels;
    for (std::int64_t p = 0; p < rows; ++p) {
      for (std::int64_t q = 0; q < columns; ++q) {
        const std::int64_t where =
            *reinterpret_cast<const std::int64_t*>(indices.at(image, channel, p, q));
        char* to = dx.at(image, channel, where / width, where % width);
        store(dx.dtype, to, load<C>(dx.dtype, to) + load<C>(dy.dtype, dy.at(image, channel, p, q)));
      }
    }
  }
};

template <class C>
struct MaxPoolGather {
  Planes x, indices, y;
  Coordinates outputs;
  std::int64_t width;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, p, q] = outputs(i);
    const std::int64_t where =
        *reinterpret_cast<const std::int64_t*>(indices.at(image, channel, p, q));
    store(y.dtype, y.at(image, channel, p, q),
          load<C>(x.dtype, x.at(image, channel, where / width, where % width)));
  }
};

template <class C>
struct AveragePool {
  Planes x, y;
  Coordinates outputs;
  Axis rows, columns;
  bool count_padding;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, p, q] = outputs(i);
    const Window row = rows.window(p), column = columns.window(q);
    C sum = 0;
    for (std::int64_t h = row.begin; h < row.end; ++h) {
      for (std::int64_t w = column.begin; w < column.end; ++w)
        sum += load<C>(x.dtype, x.at(image, channel, h, w));
    }
    store(y.dtype, y.at(image, channel, p, q), sum / divisor<C>(row, column, count_padding));
  }
};

template <class C>
struct AveragePoolBackward {
  Planes dy, dx;
  Coordinates inputs;
  Axis rows, columns;
  bool count_padding;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, h, w] = inputs(i);
    std::int64_t first_row, last_row, first_column, last_column;
    rows.outputs_over(h, first_row, last_row);
    columns.outputs_over(w, first_column, last_column);
    C sum = 0;
    for (std::int64_t p = first_row; p < last_row; ++p) {
      const Window row = rows.window(p);
      if (h < row.begin || h >= row.end) continue;
      for (std::int64_t q = first_column; q < last_column; ++q) {
        const Window column = columns.window(q);
        if (w < column.begin || w >= column.end) continue;
        sum +=
            load<C>(dy.dtype, dy.at(image, channel, p, q)) / divisor<C>(row, column, count_padding);
      }
    }
    store(dx.dtype, dx.at(image, channel, h, w), sum);
  }
};

void average(int device, const Tensor& x, const Tensor& y, const Pool2dParams& params) {
  visit_float_compute(x.dtype(), "avg_pool2d", [&]<class C>() {
    for_each(device, y.numel(),
             AveragePool<C>{Planes(x), Planes(y), Coordinates(y), rows_of(x, y, params),
                            columns_of(x, y, params), params.count_include_pad});
  });
}

void average_backward(int device, const Tensor& dy, const Tensor& dx, const Pool2dParams& params) {
  visit_float_compute(dx.dtype(), "avg_pool2d_backward", [&]<class C>() {
    for_each(
        device, dx.numel(),
        AveragePoolBackward<C>{Planes(dy), Planes(dx), Coordinates(dx), rows_of(dx, dy, params),
                               columns_of(dx, dy, params), params.count_include_pad});
  });
}

}  // namespace

void CudaBackend::max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                             const Pool2dParams& params) {
  visit_float_compute(x.dtype(), "max_pool2d", [&]<class C>() {
    for_each(device_, y.numel(),
             MaxPool<C>{Planes(x), Planes(y), Planes(indices), Coordinates(y),
                        rows_of(x, y, params), columns_of(x, y, params)});
  });
}

void CudaBackend::max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Tensor& dx) {
  // Sums of 16-bit floats are formed in f32 and rounded once.
  const bool widen = size_of(dx.dtype()) == 2;
  Tensor wide = dx;
  if (widen) {
    wide = Tensor::empty(dx.shape(),
                         {.dtype = f32, .device = dx.device(), .format = dx.suggested_format()});
    copy(dx, wide);
  }
  visit_float_compute(dx.dtype(), "max_pool2d_backward", [&]<class C>() {
    for_each(device_, dx.shape()[0] * dx.shape()[1],
             MaxPoolBackward<C>{Planes(dy), Planes(indices), Planes(wide), dx.shape()[1],
                                dy.shape()[2], dy.shape()[3], dx.shape()[3]});
  });
  if (widen) copy(wide, dx);
}

void CudaBackend::max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) {
  visit_float_compute(x.dtype(), "max_pool2d_gather", [&]<class C>() {
    for_each(device_, y.numel(),
             MaxPoolGather<C>{Planes(x), Planes(indices), Planes(y), Coordinates(y), x.shape()[3]});
  });
}

void CudaBackend::avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) {
  average(device_, x, y, params);
}
void CudaBackend::avg_pool2d_backward(const Tensor& dy, const Tensor& dx,
                                      const Pool2dParams& params) {
  average_backward(device_, dy, dx, params);
}
void CudaBackend::adaptive_avg_pool2d(const Tensor& x, const Tensor& y) {
  average(device_, x, y, adaptive);
}
void CudaBackend::adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) {
  average_backward(device_, dy, dx, adaptive);
}

}  // namespace rondo::cuda
