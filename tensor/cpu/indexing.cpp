// Gather and scatter with index tensors.
//
// gather and index_select only move elements, so they are written for element sizes, not dtypes.
// index_scatter and scatter write several times to one element when an index repeats. So threads
// divide the other dimensions among themselves, never the index: no two threads write the same
// element, and writes happen in the order of the index.
//
// Indices are checked before anything is written, so an invalid index leaves the outputs unchanged.
// Only gather, whose index is as large as its output, checks while it writes. Those of
// sparse_product are made by its caller, and not checked. Each of its outputs is the sum of one
// thread.

#include <algorithm>
#include <atomic>
#include <numeric>

#include "tensor/cpu/copy_bytes.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/functors.h"
#include "tensor/index_error.h"
#include "tensor/record_function.h"
#include "tensor/scratch.h"

namespace rondo::cpu {
namespace {

/// Throws ShapeError with the first element of `index`, in row-major order, outside 0 … size-1;
/// there is one.
[[noreturn]] void throw_index_error(const char* kernel, const Tensor& index, std::int64_t size,
                                    std::int64_t dim) {
  Walker<1> walker(index.shape(), {index.strides()});
  for (;; walker.next()) {
    const std::int64_t at = index.data_ptr<std::int64_t>()[walker.offsets()[0]];
    if (at < 0 || at >= size) throw ShapeError(index_error(OpName::called(kernel), at, dim, size));
  }
}

/// Throws this error if any element is invalid.
void check_indices(const char* kernel, const Tensor& index, std::int64_t size, std::int64_t dim) {
  std::atomic<bool> valid = true;
  StridedLoop<1>({&index}).for_each_row([&](const auto& data, const auto& steps, std::int64_t n) {
    bool all = true;
    const auto check = [&](std::int64_t step) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = *reinterpret_cast<const std::int64_t*>(data[0] + i * step);
        all &= (at >= 0) & (at < size);
      }
    };
    if (steps[0] == sizeof(std::int64_t)) {
      check(sizeof(std::int64_t));
    } else {
      check(steps[0]);
    }
    if (!all) valid = false;
  });
  if (!valid) throw_index_error(kernel, index, size, dim);
}

/// a = op(a, b) in T's compute type, rounded once; boolean addition is "or".
template <class T>
T joined(ScatterOp op, T a, T b) {
  if (op == ScatterOp::set) return b;
  if constexpr (std::is_same_v<T, bool>) {
    return op == ScatterOp::add || op == ScatterOp::max ? a || b : a && b;
  } else {
    return static_cast<T>(functors::scatter<Compute<T>>(op, a, b));
  }
}

/// Calls f with a function object (T, T) -> T, and once more for `add`, so that the loops of the
/// gradients have no branch.
template <class T, class F>
void visit_scatter(ScatterOp op, F f) {
  if (op == ScatterOp::add) return f([](T a, T b) { return joined(ScatterOp::add, a, b); });
  f([op](T a, T b) { return joined(op, a, b); });
}

/// Calls join(y, x) with both in f32 if they have 16 bits and op computes, and rounds the result
/// into y once. If each addition were rounded, 1 + 1 + … would stop at 256 in bf16.
template <class F>
void in_wide(ScatterOp op, const Tensor& y, const Tensor& x, F join) {
  if (!functors::scatters_wide(op, y.dtype())) return join(y, x);
  const Tensor wide = Tensor::empty(y.shape());
  CpuBackend& backend = CpuBackend::instance();
  backend.do_copy(y, wide);
  join(wide, as_f32(x));
  backend.do_copy(wide, y);
}

Dims with_front(Dims dims, std::int64_t value) {
  dims.insert(0, value);
  return dims;
}

/// Splits a shape without `dim` into slow dimensions and one fast run, if the tensors have constant
/// strides in the last dimension. index_select and index_scatter spend their time in the run.
struct FastRun {
  std::int64_t length = 1, x = 0, y = 0;
  Dims sizes, x_strides, y_strides;

  FastRun(const Tensor& x_tensor, const Tensor& y_tensor, std::int64_t dim)
      : sizes(without(x_tensor.shape(), dim)),
        x_strides(without(x_tensor.strides(), dim)),
        y_strides(without(y_tensor.strides(), dim)) {
    if (sizes.empty()) return;
    const std::int64_t last = sizes.size() - 1;
    length = sizes[last];
    x = x_strides[last];
    y = y_strides[last];
    for (Dims* dims : {&sizes, &x_strides, &y_strides}) dims->erase(last);
  }
};

/// y[which[i]] = join(y[which[i]], x[i]) for the elements of a line, in this order.
template <class T, class Join>
void scatter_line(Join join, const std::int64_t* which, std::int64_t which_stride, std::int64_t n,
                  const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride) {
  for (std::int64_t i = 0; i < n; ++i) {
    T& element = y[which[i * which_stride] * y_stride];
    element = join(element, x[i * x_stride]);
  }
}

/// index_scatter in the tensors' own dtype.
void scatter_slices(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
                    const Tensor& x) {
  const std::int64_t* which = index.data_ptr<std::int64_t>();
  const std::int64_t which_stride = stride_along(index, 0), count = index.numel();
  const std::int64_t x_step = stride_along(x, dim), y_step = stride_along(y, dim);
  const FastRun run(x, y, dim);
  // The run is split into tiles, so that even a matrix gives each thread some work. The order of
  // writes to an element is that of the index, independent of the tiles.
  const std::int64_t shares =
      omp_get_max_threads() / std::max<std::int64_t>(1, numel_of(run.sizes));
  const std::int64_t tile =
      std::max<std::int64_t>(64, run.length / std::max<std::int64_t>(1, shares));
  const std::int64_t tiles = (run.length + tile - 1) / tile;
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* from = x.data_ptr<T>();
    T* to = y.data_ptr<T>();
    visit_scatter<T>(op, [&](auto join) {
      auto make_body = [&] {
        return [&](const Offsets<3>& at) {
          const std::int64_t begin = at[2] * tile, end = std::min(run.length, begin + tile);
          if (run.length == 1)
            return scatter_line(join, which, which_stride, count, from + at[0], x_step, to + at[1],
                                y_step);
          for (std::int64_t i = 0; i < count; ++i) {
            const T* in = from + at[0] + i * x_step;
            T* out = to + at[1] + which[i * which_stride] * y_step;
            if (run.x == 1 && run.y == 1) {
#pragma omp simd
              for (std::int64_t j = begin; j < end; ++j) out[j] = join(out[j], in[j]);
            } else {
              for (std::int64_t j = begin; j < end; ++j)
                out[j * run.y] = join(out[j * run.y], in[j * run.x]);
            }
          }
        };
      };
      for_each_position<3>(with_front(run.sizes, tiles),
                           {with_front(run.x_strides, 0), with_front(run.y_strides, 0),
                            with_front(Dims::filled(run.sizes.size(), 0), 1)},
                           count * tile, make_body);
    });
  });
}

/// scatter in the tensors' own dtype.
void scatter_elements(ScatterOp op, const Tensor& y, std::int64_t dim, const Tensor& index,
                      const Tensor& x) {
  const std::int64_t* which = index.data_ptr<std::int64_t>();
  const std::int64_t n = size_along(index, dim), which_stride = stride_along(index, dim);
  const std::int64_t x_stride = stride_along(x, dim), y_stride = stride_along(y, dim);
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* from = x.data_ptr<T>();
    T* to = y.data_ptr<T>();
    visit_scatter<T>(op, [&](auto join) {
      auto make_body = [&] {
        return [&](const Offsets<3>& at) {
          scatter_line(join, which + at[0], which_stride, n, from + at[2], x_stride, to + at[1],
                       y_stride);
        };
      };
      for_each_line(dim, make_body, index, y, x);
    });
  });
}

}  // namespace

void CpuBackend::do_index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                                 const Tensor& y) {
  check_indices("index_select", index, size_along(x, dim), dim);
  if (y.numel() == 0) return;
  const std::int64_t* which = index.data_ptr<std::int64_t>();
  const std::int64_t which_stride = stride_along(index, 0);
  const std::int64_t x_step = stride_along(x, dim), y_step = stride_along(y, dim);
  const FastRun run(x, y, dim);
  const std::int64_t count = index.numel();
  visit_word(x.dtype(), [&]<class T>() {
    const T* from = static_cast<const T*>(x.data_ptr());
    T* to = static_cast<T*>(y.data_ptr());
    const bool has_lines = y.numel() >= count * threads_for(y.numel());
    if (x_step == 1 && y_step == 1 && run.x != 1 && has_lines) {  // the elements are neighbours
      auto of_line = [&] {
        return [&](const Offsets<2>& at) {
          for (std::int64_t i = 0; i < count; ++i)
            to[at[1] + i] = from[at[0] + which[i * which_stride]];
        };
      };
      return for_each_position<2>(without(x.shape(), dim),
                                  {without(x.strides(), dim), without(y.strides(), dim)}, count,
                                  of_line);
    }
    // Positions: (slow dimensions of x) × (entries of the index); each position copies one run.
    auto make_body = [&] {
      return [&](const Offsets<3>& at) {
        const T* in = from + at[0] + which[at[2] * which_stride] * x_step;
        T* out = to + at[1] + at[2] * y_step;
        if (run.x == 1 && run.y == 1) {
          copy_bytes(reinterpret_cast<char*>(out), reinterpret_cast<const char*>(in),
                     static_cast<std::size_t>(run.length) * sizeof(T));
        } else {
          for (std::int64_t j = 0; j < run.length; ++j) out[j * run.y] = in[j * run.x];
        }
      };
    };
    for_each_position<3>(with_front(run.sizes, count),
                         {with_front(run.x_strides, 0), with_front(run.y_strides, 0),
                          with_front(Dims::filled(run.sizes.size(), 0), 1)},
                         run.length, make_body);
  });
}

void CpuBackend::do_true_places(const Tensor& mask, const Tensor& y) {
  const auto* is_true = reinterpret_cast<const std::uint8_t*>(mask.data_ptr<bool>());
  const std::int64_t n = mask.numel();
  const int shares = static_cast<int>(std::min<std::int64_t>(threads_for(n), n));
  // Each share writes behind the true elements of those before it.
  std::vector<std::int64_t> before(static_cast<std::size_t>(std::max(shares, 1)) + 1);
  parallel_shares(n, shares, [&](int share, std::int64_t begin, std::int64_t end) {
    before[static_cast<std::size_t>(share) + 1] =
        std::count_if(is_true + begin, is_true + end, [](std::uint8_t v) { return v != 0; });
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  auto* place = y.data_ptr<std::int64_t>();
  const std::int64_t step = y.stride(0);
  parallel_shares(n, shares, [&](int share, std::int64_t begin, std::int64_t) {
    std::int64_t next = before[static_cast<std::size_t>(share)];
    const std::int64_t last = before[static_cast<std::size_t>(share) + 1];
    for (std::int64_t i = begin; next < last; ++i) {  // without a branch on the element
      place[next * step] = i;
      next += is_true[i] != 0 ? 1 : 0;
    }
  });
}

void CpuBackend::do_index_scatter(ScatterOp op, const Tensor& joined, std::int64_t dim,
                                  const Tensor& index, const Tensor& values) {
  check_indices(op == ScatterOp::add ? "index_add" : "index_scatter", index,
                size_along(joined, dim), dim);
  in_wide(op, joined, values,
          [&](const Tensor& y, const Tensor& x) { scatter_slices(op, y, dim, index, x); });
}

void CpuBackend::do_gather(const Tensor& x, std::int64_t dim, const Tensor& index,
                           const Tensor& y) {
  const std::int64_t size = size_along(x, dim);
  if (size == 0) check_indices("gather", index, size, dim);  // nothing to read instead
  const std::int64_t* which = index.data_ptr<std::int64_t>();
  const std::int64_t n = size_along(index, dim), which_stride = stride_along(index, dim);
  const std::int64_t x_stride = stride_along(x, dim), y_stride = stride_along(y, dim);
  std::atomic<bool> valid = true;
  visit_word(x.dtype(), [&]<class T>() {
    const T* from = static_cast<const T*>(x.data_ptr());
    T* to = static_cast<T*>(y.data_ptr());
    auto make_body = [&] {
      return [&](const Offsets<3>& at) {
        bool all = true;
        const auto pick = [&](std::int64_t index_step, std::int64_t x_step, std::int64_t y_step) {
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t place = which[at[0] + i * index_step];
            const bool inside = (place >= 0) & (place < size);
            all &= inside;
            to[at[1] + i * y_step] = from[at[2] + (inside ? place : 0) * x_step];
          }
        };
        if (which_stride == 1 && x_stride == 1 && y_stride == 1) {
          pick(1, 1, 1);
        } else {
          pick(which_stride, x_stride, y_stride);
        }
        if (!all) valid = false;
      };
    };
    for_each_line(dim, make_body, index, y, x);
  });
  if (!valid) throw_index_error("gather", index, size, dim);
}

void CpuBackend::do_scatter(ScatterOp op, const Tensor& joined, std::int64_t dim,
                            const Tensor& index, const Tensor& values) {
  check_indices(op == ScatterOp::add ? "scatter_add" : "scatter", index, size_along(joined, dim),
                dim);
  in_wide(op, joined, values,
          [&](const Tensor& y, const Tensor& x) { scatter_elements(op, y, dim, index, x); });
}

namespace {

/// y (inner) = Σ of the matrix's elements j … last - 1 times their rows of x (columns, inner).
template <class T>
void sparse_row(const CompressedRows& matrix, std::int64_t j, std::int64_t last, const T* x,
                std::int64_t inner, T* y) {
  const auto* index = matrix.index.data_ptr<std::int64_t>();
  const T* weight = matrix.weight.data_ptr<T>();
  if (inner == 1) {
    T sum = 0;
    for (; j < last; ++j) sum += weight[j] * x[index[j]];
    *y = sum;
  } else if (last - j >= 2) {  // the first two together: linear interpolation has no more
    const T u = weight[j], v = weight[j + 1];
    const T *a = x + index[j] * inner, *b = x + index[j + 1] * inner;
    for (std::int64_t k = 0; k < inner; ++k) y[k] = u * a[k] + v * b[k];
    j += 2;
  } else {
    std::fill_n(y, inner, T(0));
  }
  for (; j < last; ++j) {
    const T w = weight[j];
    const T* a = x + index[j] * inner;
    for (std::int64_t k = 0; k < inner; ++k) y[k] += w * a[k];
  }
}

}  // namespace

void CpuBackend::do_sparse_product(const CompressedRows& matrix, const Tensor& x, const Tensor& y) {
  const std::int64_t rows = matrix.rows(), columns = x.size(1), inner = x.size(2);
  const auto* offset = matrix.offset.data_ptr<std::int64_t>();
  visit_float_compute(x.dtype(), "sparse_product", [&]<class T>() {
    const T* from = x.data_ptr<T>();
    T* to = y.data_ptr<T>();
    parallel_for(y.numel() / inner, y.numel(), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t outer = begin / rows, row = begin % rows;
      for (std::int64_t i = begin; i < end; ++i) {
        sparse_row(matrix, offset[row], offset[row + 1], from + outer * columns * inner, inner,
                   to + i * inner);
        if (++row < rows) continue;
        row = 0;
        ++outer;
      }
    });
  });
}

}  // namespace rondo::cpu
