// Pooling over the planes of x (N, C, H, W). One thread computes each element of the result: in the
// forward from its window, in the backward from all windows that contain it. No two threads add to
// the same element, so the sums are bit-identical in every run, and each element is written once.
// If the channels are contiguous (channels_last), a thread processes as many of them as fit into 16
// bytes.

#include <algorithm>
#include <limits>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

/// A tensor (N, C, H, W), addressed by coordinates.
template <class T>
struct Planes {
  T* data;
  std::int64_t n, c, h, w;  // elements

  explicit Planes(const Tensor& x)
      : data(static_cast<T*>(x.data_ptr())),
        n(x.strides()[0]),
        c(x.strides()[1]),
        h(x.strides()[2]),
        w(x.strides()[3]) {}
  RONDO_HD std::int64_t at(std::int64_t image, std::int64_t channel, std::int64_t row,
                           std::int64_t column) const {
    return image * n + channel * c + row * h + column * w;
  }
};

/// The coordinates of pack i of V elements of a tensor, in memory order.
template <int V>
struct Coordinates {
  Divisor channels, rows, columns;
  bool channels_last;

  explicit Coordinates(const Tensor& x)
      : channels(x.shape()[1] / V),
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
    p.channel *= V;
    p.image = i;
    return p;
  }
};

/// Calls f.operator()<T, V>() with the type T of the first tensor's elements, and the number V of
/// channels of all `tensors` that can be processed at a time.
template <class F>
void visit_packs(const char* op, std::initializer_list<Tensor> tensors, F&& f) {
  visit_float(tensors.begin()->dtype(), op, [&]<class T>() {
    constexpr int V = Pack<T>::size;
    const bool packs = std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
      auto fits = [&](std::size_t d) { return x.shape()[d] == 1 || x.strides()[d] % V == 0; };
      return x.shape()[1] % V == 0 && x.strides()[1] == 1 && is_aligned(x) && fits(0) && fits(2) &&
             fits(3);
    });
    if (packs) {
      f.template operator()<T, V>();
    } else {
      f.template operator()<T, 1>();
    }
  });
}

/// The window that an output row (or column) averages: begin … end-1 of the input, divided by
/// `extent`.
struct PoolWindow {
  std::int64_t begin, end, extent;
};

/// The windows along one dimension: sliding windows, or adaptive windows (stride 0).
struct WindowAxis {
  std::int64_t inputs, outputs, kernel, stride, pad;
  Divisor by_inputs, by_outputs, by_stride;

  WindowAxis(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
             std::int64_t pad)
      : inputs(inputs),
        outputs(outputs),
        kernel(kernel),
        stride(stride),
        pad(pad),
        by_inputs(inputs),
        by_outputs(outputs),
        by_stride(stride) {}

  RONDO_HD PoolWindow window(std::int64_t i) const {
    if (stride == 0) {
      const std::int64_t begin = by_outputs.divide(i * inputs);
      const std::int64_t end = by_outputs.divide((i + 1) * inputs + outputs - 1);
      return {begin, end, end - begin};
    }
    const std::int64_t begin = i * stride - pad, reach = begin + kernel;
    // Includes padding, but nothing beyond it (ceil-mode windows may reach further).
    const std::int64_t end = reach < inputs + pad ? reach : inputs + pad;
    return {begin > 0 ? begin : 0, end < inputs ? end : inputs, end - begin};
  }
  /// The outputs first … last - 1 are all outputs whose windows may contain input i.
  RONDO_HD void outputs_over(std::int64_t i, std::int64_t& first, std::int64_t& last) const {
    if (stride == 0) {
      first = by_inputs.divide(i * outputs);
      last = by_inputs.divide((i + 1) * outputs + inputs - 1);
    } else {
      const std::int64_t from = i + pad - kernel + 1;
      first = from > 0 ? by_stride.divide(from + stride - 1) : 0;
      last = by_stride.divide(i + pad) + 1;
    }
    if (last > outputs) last = outputs;
  }
};

WindowAxis rows_of(const Tensor& x, const Tensor& y, const Pool2dParams& p) {
  return {x.shape()[2], y.shape()[2], p.kernel_h, p.stride_h, p.pad_h};
}
WindowAxis columns_of(const Tensor& x, const Tensor& y, const Pool2dParams& p) {
  return {x.shape()[3], y.shape()[3], p.kernel_w, p.stride_w, p.pad_w};
}
constexpr Pool2dParams adaptive{
    .kernel_h = 0, .kernel_w = 0, .stride_h = 0, .stride_w = 0, .count_include_pad = false};

template <class C>
RONDO_HD C divisor(const PoolWindow& row, const PoolWindow& column, bool count_padding) {
  return count_padding
             ? static_cast<C>(row.extent) * static_cast<C>(column.extent)
             : static_cast<C>(row.end - row.begin) * static_cast<C>(column.end - column.begin);
}

/// V positions inside planes.
template <int V>
struct Places {
  std::int64_t v[V];
  RONDO_HD static Places load(const std::int64_t* from) {
    Places places;
    if constexpr (V == 1) {
      places.v[0] = *from;
    } else {
      for (int k = 0; k < V; k += 2) {
        const auto two = *reinterpret_cast<const Pack<std::int64_t>*>(from + k);
        places.v[k] = two.values[0];
        places.v[k + 1] = two.values[1];
      }
    }
    return places;
  }
  RONDO_HD void store(std::int64_t* to) const {
    if constexpr (V == 1) {
      *to = v[0];
    } else {
      for (int k = 0; k < V; k += 2) store_16(to + k, Pack<std::int64_t>{{v[k], v[k + 1]}});
    }
  }
};

template <class T, int V>
struct MaxPool {
  Planes<T> x, y;
  Planes<std::int64_t> indices;
  Coordinates<V> outputs;
  WindowAxis rows, columns;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, p, q] = outputs(i);
    const PoolWindow row = rows.window(p), column = columns.window(q);
    Values<T, V> best;
    Places<V> where;
    for (int k = 0; k < V; ++k) {
      best.v[k] = -std::numeric_limits<Compute<T>>::infinity();
      where.v[k] = row.begin * columns.inputs + column.begin;
    }
    for (std::int64_t h = row.begin; h < row.end; ++h) {
      for (std::int64_t w = column.begin; w < column.end; ++w) {
        const auto here = Values<T, V>::load(x.data, x.at(image, channel, h, w));
        for (int k = 0; k < V; ++k) {
          if (here.v[k] > best.v[k] || here.v[k] != here.v[k]) {  // the first of equal ones stays
            best.v[k] = here.v[k];
            where.v[k] = h * columns.inputs + w;
          }
        }
      }
    }
    best.store(y.data, y.at(image, channel, p, q));
    where.store(indices.data + indices.at(image, channel, p, q));
  }
};

template <class T, int V>
struct MaxPoolBackward {
  Planes<T> dy;
  Planes<std::int64_t> indices;
  Planes<T> dx;
  Coordinates<V> inputs;
  WindowAxis rows, columns;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, h, w] = inputs(i);
    const std::int64_t here = h * columns.inputs + w;
    std::int64_t first_row, last_row, first_column, last_column;
    rows.outputs_over(h, first_row, last_row);
    columns.outputs_over(w, first_column, last_column);
    Values<T, V> sum;
    for (int k = 0; k < V; ++k) sum.v[k] = 0;
    for (std::int64_t p = first_row; p < last_row; ++p) {
      for (std::int64_t q = first_column; q < last_column; ++q) {
        const auto where = Places<V>::load(indices.data + indices.at(image, channel, p, q));
        const auto g = Values<T, V>::load(dy.data, dy.at(image, channel, p, q));
        for (int k = 0; k < V; ++k) sum.v[k] += where.v[k] == here ? g.v[k] : 0;
      }
    }
    sum.store(dx.data, dx.at(image, channel, h, w));
  }
};

template <class T>
struct MaxPoolGather {
  Planes<T> x;
  Planes<std::int64_t> indices;
  Planes<T> y;
  Coordinates<1> outputs;
  std::int64_t width;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, p, q] = outputs(i);
    const std::int64_t where = indices.data[indices.at(image, channel, p, q)];
    y.data[y.at(image, channel, p, q)] = x.data[x.at(image, channel, where / width, where % width)];
  }
};

template <class T, int V>
struct AveragePool {
  Planes<T> x, y;
  Coordinates<V> outputs;
  WindowAxis rows, columns;
  bool count_padding;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, p, q] = outputs(i);
    const PoolWindow row = rows.window(p), column = columns.window(q);
    Values<T, V> sum;
    for (int k = 0; k < V; ++k) sum.v[k] = 0;
    for (std::int64_t h = row.begin; h < row.end; ++h) {
      for (std::int64_t w = column.begin; w < column.end; ++w) {
        const auto here = Values<T, V>::load(x.data, x.at(image, channel, h, w));
        for (int k = 0; k < V; ++k) sum.v[k] += here.v[k];
      }
    }
    const auto count = divisor<Compute<T>>(row, column, count_padding);
    for (int k = 0; k < V; ++k) sum.v[k] /= count;
    sum.store(y.data, y.at(image, channel, p, q));
  }
};

template <class T, int V>
struct AveragePoolBackward {
  Planes<T> dy, dx;
  Coordinates<V> inputs;
  WindowAxis rows, columns;
  bool count_padding;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto [image, channel, h, w] = inputs(i);
    std::int64_t first_row, last_row, first_column, last_column;
    rows.outputs_over(h, first_row, last_row);
    columns.outputs_over(w, first_column, last_column);
    Values<T, V> sum;
    for (int k = 0; k < V; ++k) sum.v[k] = 0;
    for (std::int64_t p = first_row; p < last_row; ++p) {
      const PoolWindow row = rows.window(p);
      if (h < row.begin || h >= row.end) continue;
      for (std::int64_t q = first_column; q < last_column; ++q) {
        const PoolWindow column = columns.window(q);
        if (w < column.begin || w >= column.end) continue;
        const auto g = Values<T, V>::load(dy.data, dy.at(image, channel, p, q));
        const auto count = divisor<Compute<T>>(row, column, count_padding);
        for (int k = 0; k < V; ++k) sum.v[k] += g.v[k] / count;
      }
    }
    sum.store(dx.data, dx.at(image, channel, h, w));
  }
};

void average(int device, const Tensor& x, const Tensor& y, const Pool2dParams& params) {
  visit_packs("avg_pool2d", {x, y}, [&]<class T, int V>() {
    for_each(device, y.numel() / V,
             AveragePool<T, V>{Planes<T>(x), Planes<T>(y), Coordinates<V>(y), rows_of(x, y, params),
                               columns_of(x, y, params), params.count_include_pad});
  });
}

void average_backward(int device, const Tensor& dy, const Tensor& dx, const Pool2dParams& params) {
  visit_packs("avg_pool2d_backward", {dx, dy}, [&]<class T, int V>() {
    for_each(device, dx.numel() / V,
             AveragePoolBackward<T, V>{Planes<T>(dy), Planes<T>(dx), Coordinates<V>(dx),
                                       rows_of(dx, dy, params), columns_of(dx, dy, params),
                                       params.count_include_pad});
  });
}

}  // namespace

void CudaBackend::do_max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                                const Pool2dParams& params) {
  visit_packs("max_pool2d", {x, y, indices}, [&]<class T, int V>() {
    for_each(device_, y.numel() / V,
             MaxPool<T, V>{Planes<T>(x), Planes<T>(y), Planes<std::int64_t>(indices),
                           Coordinates<V>(y), rows_of(x, y, params), columns_of(x, y, params)});
  });
}

void CudaBackend::do_max_pool2d_backward(const Tensor& dy, const Tensor& indices,
                                         const Pool2dParams& params, const Tensor& dx) {
  visit_packs("max_pool2d_backward", {dx, dy, indices}, [&]<class T, int V>() {
    for_each(device_, dx.numel() / V,
             MaxPoolBackward<T, V>{Planes<T>(dy), Planes<std::int64_t>(indices), Planes<T>(dx),
                                   Coordinates<V>(dx), rows_of(dx, dy, params),
                                   columns_of(dx, dy, params)});
  });
}

void CudaBackend::do_max_pool2d_gather(const Tensor& x, const Tensor& indices, const Tensor& y) {
  visit_float(x.dtype(), "max_pool2d_gather", [&]<class T>() {
    for_each(device_, y.numel(),
             MaxPoolGather<T>{Planes<T>(x), Planes<std::int64_t>(indices), Planes<T>(y),
                              Coordinates<1>(y), x.shape()[3]});
  });
}

void CudaBackend::do_avg_pool2d(const Tensor& x, const Tensor& y, const Pool2dParams& params) {
  average(device_, x, y, params);
}
void CudaBackend::do_avg_pool2d_backward(const Tensor& dy, const Tensor& dx,
                                         const Pool2dParams& params) {
  average_backward(device_, dy, dx, params);
}
void CudaBackend::do_adaptive_avg_pool2d(const Tensor& x, const Tensor& y) {
  average(device_, x, y, adaptive);
}
void CudaBackend::do_adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) {
  average_backward(device_, dy, dx, adaptive);
}

}  // namespace rondo::cuda
