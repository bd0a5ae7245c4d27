// Reductions over any set of dimensions of a tensor with any strides, and the arg-reductions.
//
// All cases use one of two loops. The dimensions of x are sorted by stride, and neighbours that are
// contiguous in memory are merged. Then either the fastest dimension is reduced (a run is reduced
// to one number), or it is kept (rows are added to a row of accumulators). If the fastest dimension
// is short and reduced, the next one is used in its place. So the sum of a channels_last batch over
// N, H, W becomes "add N H W rows of C", and that of a contiguous batch "reduce runs of H W",
// without special cases.
//
// Accuracy: runs of at most 2,048 elements are reduced in the compute type and combined in a wider
// one (double for float), so that the error of an f32 sum does not grow with its length.
// Determinism: how a long reduction is split depends only on its sizes, not on threads.

#include <algorithm>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/dense_reduce.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t elements_per_run = 2048;  // elements of a run reduced in the compute type
constexpr std::int64_t columns_per_tile = 512;   // columns of rows that are reduced side by side
constexpr std::int64_t rows_per_fold = 64;       // rows that are summed in the compute type
constexpr std::int64_t part_size = 8192;  // the smallest part of a split reduction, in elements
constexpr std::int64_t wanted_parts = 64;

struct Axis {
  std::int64_t size, x, y;  // x, y: strides; y is 0 if the axis is reduced
  bool reduced;
};

/// x with as few dimensions as its memory layout allows, slowest first; never empty.
std::vector<Axis> merged_axes(const Tensor& x, const Tensor& y) {
  std::vector<Axis> axes;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (x.shape()[d] == 1) continue;
    const bool reduced = y.shape()[d] == 1;
    axes.push_back({x.shape()[d], x.strides()[d], reduced ? 0 : y.strides()[d], reduced});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.x > b.x; });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty()) {
      Axis& last = merged.back();
      if (last.reduced == axis.reduced && last.x == axis.size * axis.x &&
          last.y == axis.size * axis.y) {
        last = {last.size * axis.size, axis.x, axis.y, axis.reduced};
        continue;
      }
    }
    merged.push_back(axis);
  }
  if (merged.empty()) merged.push_back({1, 1, 0, true});
  return merged;
}

/// A reduction as nested loops: for every position of `kept`, over all of `reduced`; `inner` is the
/// innermost loop.
struct Nest {
  Axis inner;
  Dims kept, kept_x, kept_y;
  Dims reduced, reduced_x;

  Nest(const Tensor& x, const Tensor& y) {
    std::vector<Axis> axes = merged_axes(x, y);
    if (axes.size() > 1) {  // sums of few neighbours: better compute many sums side by side
      Axis &last = axes.back(), &before = axes[axes.size() - 2];
      if (last.reduced && !before.reduced && last.size < 64 && before.size >= 4 * last.size)
        std::swap(last, before);
    }
    inner = axes.back();
    axes.pop_back();
    for (const Axis& axis : axes) {
      (axis.reduced ? reduced : kept).push_back(axis.size);
      (axis.reduced ? reduced_x : kept_x).push_back(axis.x);
      if (!axis.reduced) kept_y.push_back(axis.y);
    }
  }
};

/// The number of parts for a reduction of `length` elements that is done `times` times.
std::int64_t parts_of(std::int64_t times, std::int64_t length) {
  if (times >= wanted_parts) return 1;
  return std::clamp<std::int64_t>(length / part_size, 1, (wanted_parts + times - 1) / times);
}

/// Calls f(task) for each task, in parallel if `elements`, the total number, is large enough.
template <class F>
void parallel_tasks(std::int64_t tasks, std::int64_t elements, const F& f) {
#pragma omp parallel for schedule(static) if (tasks > 1 && elements >= parallel_grain)
  for (std::int64_t task = 0; task < tasks; ++task) f(task);
}

/// Reduces n elements of one of nest's innermost lines, starting at `offset`.
template <ReductionOp op, class C>
Wide<C> fold_line(const Tensor& x, const Nest& nest, std::int64_t offset, std::int64_t n) {
  using F = ReductionRule<op>;
  std::array<C, elements_per_run> buffer;
  auto total = F::template identity<Wide<C>>();
  for (std::int64_t i = 0; i < n; i += elements_per_run) {
    const std::int64_t length = std::min(elements_per_run, n - i);
    const C* run = dense_line(x.dtype(), x.data_ptr(), offset + i * nest.inner.x, nest.inner.x,
                              length, buffer.data());
    total = F::join(total, static_cast<Wide<C>>(reduce_run<op>(run, length)));
  }
  return total;
}

/// Inner dimension reduced: reduces elements begin … end-1 of the reduction that starts at
/// `offset`.
template <ReductionOp op, class C>
Wide<C> fold_part(const Tensor& x, const Nest& nest, std::int64_t offset, std::int64_t begin,
                  std::int64_t end) {
  using F = ReductionRule<op>;
  if (nest.reduced.empty()) {
    return fold_line<op, C>(x, nest, offset + begin * nest.inner.x, end - begin);
  }
  Walker<1> walker(nest.reduced, {nest.reduced_x});
  walker.seek(begin / nest.inner.size);
  std::int64_t at = begin % nest.inner.size;
  auto total = F::template identity<Wide<C>>();
  for (; begin < end; at = 0, walker.next()) {
    const std::int64_t n = std::min(nest.inner.size - at, end - begin);
    const std::int64_t from = offset + walker.offsets()[0] + at * nest.inner.x;
    total = F::join(total, fold_line<op, C>(x, nest, from, n));
    begin += n;
  }
  return total;
}

/// Each output is the reduction of one short, dense run: the kernel takes many at a time, where
/// they are or converted to C.
template <ReductionOp op, class C>
void reduce_short_runs(const Tensor& x, const Tensor& y, const Nest& nest) {
  constexpr std::int64_t most = 64, elements = 2 * elements_per_run;
  const std::int64_t outputs = nest.kept[0], length = nest.inner.size;
  // Fewer long runs, so that there is work for many threads.
  const std::int64_t together =
      std::clamp<std::int64_t>(elements / std::max<std::int64_t>(length, 1), 1, most);
  parallel_tasks((outputs + together - 1) / together, outputs * length, [&](std::int64_t task) {
    std::array<C, elements> buffer;
    std::array<C, most> total;
    const std::int64_t first = task * together, count = std::min(together, outputs - first);
    const std::int64_t at = first * nest.kept_x[0];
    if (x.dtype() == dtype_of<C>) {
      reduction_kernels<C>().runs(op, static_cast<const C*>(x.data_ptr()) + at, count,
                                  nest.kept_x[0], length, total.data());
    } else {
      const std::int64_t runs = nest.kept_x[0] == length ? count : 1;  // that are converted at once
      for (std::int64_t i = 0; i < count; i += runs)
        load(x.dtype(), x.data_ptr(), at + i * nest.kept_x[0], 1, runs * length,
             &buffer[i * length]);
      reduction_kernels<C>().runs(op, buffer.data(), count, length, length, total.data());
    }
    store(y.dtype(), y.data_ptr(), first * nest.kept_y[0], nest.kept_y[0], count, total.data());
  });
}

template <ReductionOp op, class C>
void reduce_runs(const Tensor& x, const Tensor& y, const Nest& nest) {
  using F = ReductionRule<op>;
  if (nest.reduced.empty() && nest.kept.size() == 1 && nest.inner.x == 1 &&
      nest.inner.size <= elements_per_run && nest.kept[0] >= wanted_parts)
    return reduce_short_runs<op, C>(x, y, nest);
  const std::int64_t outputs = numel_of(nest.kept);
  const std::int64_t length = numel_of(nest.reduced) * nest.inner.size;
  const std::int64_t parts = parts_of(outputs, length);
  std::vector<Wide<C>> partial(parts > 1 ? static_cast<std::size_t>(outputs * parts) : 0);
  // Consecutive tasks are the parts of one output, so a chunk of tasks visits the outputs in order.
  const std::int64_t chunks = std::min<std::int64_t>(outputs * parts, 4 * wanted_parts);
  parallel_tasks(chunks, outputs * length, [&](std::int64_t chunk) {
    std::int64_t task = outputs * parts * chunk / chunks;
    const std::int64_t last = outputs * parts * (chunk + 1) / chunks;
    Walker<2> walker(nest.kept, {nest.kept_x, nest.kept_y});
    walker.seek(task / parts);
    for (; task < last; ++task) {
      const std::int64_t part = task % parts;
      const Wide<C> total = fold_part<op, C>(x, nest, walker.offsets()[0], length * part / parts,
                                             length * (part + 1) / parts);
      if (parts == 1) {
        store(y.dtype(), y.data_ptr(), walker.offsets()[1], 1, 1, &total);
      } else {
        partial[task] = total;
      }
      if (part + 1 == parts) walker.next();
    }
  });
  if (parts == 1) return;
  Walker<1> walker(nest.kept, {nest.kept_y});
  for (std::int64_t o = 0; o < outputs; ++o, walker.next()) {
    Wide<C> total = partial[o * parts];
    for (std::int64_t p = 1; p < parts; ++p) total = F::join(total, partial[o * parts + p]);
    store(y.dtype(), y.data_ptr(), walker.offsets()[0], 1, 1, &total);
  }
}

/// Inner dimension kept: reduces rows begin … end-1, each of `width` elements, into `total`.
template <ReductionOp op, class C>
void reduce_rows(const Tensor& x, const Nest& nest, std::int64_t offset, std::int64_t width,
                 std::int64_t begin, std::int64_t end, Wide<C>* total) {
  using F = ReductionRule<op>;
  std::array<C, columns_per_tile> buffer, sum;
  std::array<const C*, rows_per_fold> row;
  const bool dense = x.dtype() == dtype_of<C> && (nest.inner.x == 1 || width == 1);
  const std::int64_t together = dense ? rows_per_fold : 1;
  Walker<1> walker(nest.reduced, {nest.reduced_x});
  walker.seek(begin);
  std::fill_n(total, width, F::template identity<Wide<C>>());
  while (begin < end) {
    const std::int64_t rows = std::min(rows_per_fold, end - begin);
    std::fill_n(sum.data(), width, F::template identity<C>());
    for (std::int64_t r = 0; r < rows; r += together) {
      const std::int64_t count = std::min(together, rows - r);
      for (std::int64_t k = 0; k < count; ++k, walker.next())
        row[k] = dense_line(x.dtype(), x.data_ptr(), offset + walker.offsets()[0], nest.inner.x,
                            width, buffer.data());
      reduction_kernels<C>().rows(op, row.data(), count, width, sum.data());
    }
    for (std::int64_t j = 0; j < width; ++j) {
      total[j] = F::join(total[j], static_cast<Wide<C>>(sum[j]));
    }
    begin += rows;
  }
}

template <ReductionOp op, class C>
void reduce_rows(const Tensor& x, const Tensor& y, const Nest& nest) {
  using F = ReductionRule<op>;
  const std::int64_t outer = numel_of(nest.kept), rows = numel_of(nest.reduced);
  const std::int64_t columns = nest.inner.size,
                     tiles = (columns + columns_per_tile - 1) / columns_per_tile;
  const std::int64_t parts =
      std::min(rows, parts_of(outer * tiles, rows * std::min(columns, columns_per_tile)));
  // The accumulators of one task. If tasks share an output, `parts` rows of accumulators for each
  // outer position.
  std::vector<Wide<C>> partial(parts > 1 ? static_cast<std::size_t>(outer * columns * parts) : 0);
  auto accumulators = [&](std::int64_t o, std::int64_t part) {
    return &partial[(o * parts + part) * columns];
  };
  parallel_tasks(outer * tiles * parts, outer * rows * columns, [&](std::int64_t task) {
    const std::int64_t part = task % parts, o = task / parts / tiles;
    Walker<2> walker(nest.kept, {nest.kept_x, nest.kept_y});
    walker.seek(o);
    const std::int64_t first = task / parts % tiles * columns_per_tile,
                       width = std::min(columns_per_tile, columns - first);
    std::array<Wide<C>, columns_per_tile> own;
    Wide<C>* total = parts > 1 ? accumulators(o, part) + first : own.data();
    reduce_rows<op, C>(x, nest, walker.offsets()[0] + first * nest.inner.x, width,
                       rows * part / parts, rows * (part + 1) / parts, total);
    if (parts == 1)
      store(y.dtype(), y.data_ptr(), walker.offsets()[1] + first * nest.inner.y, nest.inner.y,
            width, total);
  });
  if (parts == 1) return;
  Walker<1> walker(nest.kept, {nest.kept_y});
  for (std::int64_t o = 0; o < outer; ++o, walker.next()) {
    Wide<C>* total = accumulators(o, 0);
    for (std::int64_t p = 1; p < parts; ++p) {
      for (std::int64_t j = 0; j < columns; ++j)
        total[j] = F::join(total[j], accumulators(o, p)[j]);
    }
    store(y.dtype(), y.data_ptr(), walker.offsets()[0], nest.inner.y, columns, total);
  }
}

template <ReductionOp op>
void reduce_with(const Tensor& x, const Tensor& y) {
  visit_compute_type(y.dtype() == f64 ? f64 : x.dtype(), [&]<class C>() {
    const Nest nest(x, y);
    if (nest.inner.reduced) {
      reduce_runs<op, C>(x, y, nest);
    } else {
      reduce_rows<op, C>(x, y, nest);
    }
  });
}

/// The position of the first largest (smallest) of p[0 … n-1], or of the first NaN.
template <ReductionOp op, class C>
std::int64_t first_extreme(const C* p, std::int64_t n) {
  const C best = reduce_run<op>(p, n);
  if (best != best) return std::find_if(p, p + n, [](C v) { return v != v; }) - p;
  return std::find(p, p + n, best) - p;
}

}  // namespace

void CpuBackend::do_reduce(ReductionOp op, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) {
    const bool one = op == ReductionOp::prod || op == ReductionOp::all;
    const double infinity = std::numeric_limits<double>::infinity();
    if (op == ReductionOp::max) return do_fill(y, -infinity);
    if (op == ReductionOp::min) return do_fill(y, infinity);
    return do_fill(y, one ? 1 : 0);
  }
  visit_reduce(op, [&]<ReductionOp o>() { reduce_with<o>(x, y); });
}

void CpuBackend::do_extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                             const Tensor& indices) {
  const std::int64_t n = size_along(x, dim), stride = stride_along(x, dim);
  require<ShapeError>(n > 0 || values.numel() == 0, "max/min: dimension ", dim, " of ", x.shape(),
                      " is empty");
  std::int64_t* index = indices.data_ptr<std::int64_t>();
  visit_compute_type(x.dtype(), [&]<class C>() {
    auto make_body = [&] {
      return [&, buffer = std::vector<C>(n)](const Offsets<3>& at) mutable {
        const C* line = dense_line(x.dtype(), x.data_ptr(), at[0], stride, n, buffer.data());
        const std::int64_t i = largest ? first_extreme<ReductionOp::max>(line, n)
                                       : first_extreme<ReductionOp::min>(line, n);
        store(x.dtype(), values.data_ptr(), at[1], 1, 1, line + i);
        index[at[2]] = i;
      };
    };
    for_each_line(dim, make_body, x, values, indices);
  });
}

}  // namespace rondo::cpu
