// Reductions over any set of dimensions, and the arg-reductions.
//
// Each output has a base address in x, and the same offsets from there to all that it reduces.
// Where memory runs along the reduced dimensions, the threads of a block share out one output's
// offsets and join what they found. Where it runs along the kept ones, neighbouring threads have
// neighbouring outputs, and each goes through all of its own offsets: either way a warp reads what
// lies side by side. In the second case few outputs would keep few threads busy, so the offsets are
// then cut into splits, whose results a second kernel joins. How they are cut depends on sizes
// alone: the sums are the same in every run.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/fold.h"

namespace rondo::cuda {
namespace {

/// The addresses of one reduction.
struct Reduction {
  Operands<2> kept;     // x's first element for each output, and the output
  Operands<1> reduced;  // x's elements for the first output
  std::int64_t outputs, length;
  bool along_rows;  // memory runs along what is reduced

  Reduction(const Tensor& x, const Tensor& y) : Reduction(split(x, y), y) {}

  RONDO_HD std::int64_t offset(std::int64_t i) const {
    return reduced.locate(i).at[0] - reduced.data[0];
  }

 private:
  struct Views {
    Tensor kept, reduced;
  };
  static Views split(const Tensor& x, const Tensor& y) {
    Dims kept = x.shape(), reduced = x.shape();
    for (std::int64_t d = 0; d < x.dim(); ++d) {
      (y.shape()[d] == 1 ? kept : reduced)[d] = 1;
    }
    return {x.as_view(kept, x.strides(), x.storage_offset()),
            x.as_view(reduced, x.strides(), x.storage_offset())};
  }
  Reduction(const Views& views, const Tensor& y)
      : Reduction(views, y, Collapsed<2>({&views.kept, &y}), Collapsed<1>({&views.reduced})) {}
  Reduction(const Views& views, const Tensor& y, const Collapsed<2>& k, const Collapsed<1>& r)
      : kept(k, {&views.kept, &y}),
        reduced(r, {&views.reduced}),
        outputs(k.numel),
        length(r.numel),
        along_rows(outputs == 1 || (length > 1 && r.steps[0][0] <= k.steps[0][0])) {}
};

template <ReduceOp op, class C>
struct ReduceRow {
  Reduction reduction;
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    using F = Fold<op>;
    const auto at = reduction.kept.locate(row);
    C total = F::template identity<C>();
    for (std::int64_t i = group.thread(); i < reduction.length; i += group.size()) {
      total =
          F::join(total, F::map(load<C>(reduction.kept.dtypes[0], at.at[0] + reduction.offset(i))));
    }
    total = group.reduce(total, [](C a, C b) { return F::join(a, b); });
    if (group.thread() == 0) reduction.kept.write(at, 1, total);
  }
};

/// Call i folds split i / outputs of output i % outputs, into partial or, the only one, into y.
template <ReduceOp op, class C>
struct ReduceColumn {
  Reduction reduction;
  std::int64_t splits;
  C* partial;
  RONDO_HD void operator()(std::int64_t i) const {
    using F = Fold<op>;
    const std::int64_t split = i / reduction.outputs, output = i - split * reduction.outputs;
    const auto at = reduction.kept.locate(output);
    const std::int64_t end = reduction.length * (split + 1) / splits;
    C total = F::template identity<C>();
    for (std::int64_t k = reduction.length * split / splits; k < end; ++k) {
      total =
          F::join(total, F::map(load<C>(reduction.kept.dtypes[0], at.at[0] + reduction.offset(k))));
    }
    if (splits == 1) {
      reduction.kept.write(at, 1, total);
    } else {
      partial[i] = total;
    }
  }
};

template <ReduceOp op, class C>
struct JoinSplits {
  Reduction reduction;
  std::int64_t splits;
  const C* partial;
  RONDO_HD void operator()(std::int64_t output) const {
    using F = Fold<op>;
    C total = partial[output];
    for (std::int64_t s = 1; s < splits; ++s)
      total = F::join(total, partial[s * reduction.outputs + output]);
    reduction.kept.write(reduction.kept.locate(output), 1, total);
  }
};

constexpr std::int64_t wanted_threads = 65536;
constexpr std::int64_t shortest_split = 64;

template <ReduceOp op, class C>
void reduce_with(int device, const Tensor& x, const Tensor& y) {
  const Reduction reduction(x, y);
  if (reduction.along_rows)
    return for_rows(device, reduction.outputs, reduction.length, ReduceRow<op, C>{reduction});
  const std::int64_t splits =
      std::clamp<std::int64_t>(wanted_threads / reduction.outputs, 1,
                               std::max<std::int64_t>(reduction.length / shortest_split, 1));
  Tensor partial;
  if (splits > 1)
    partial =
        Tensor::empty({splits * reduction.outputs}, {.dtype = dtype_of<C>, .device = x.device()});
  C* sums = splits > 1 ? partial.data_ptr<C>() : nullptr;
  for_each(device, splits * reduction.outputs, ReduceColumn<op, C>{reduction, splits, sums});
  if (splits > 1) for_each(device, reduction.outputs, JoinSplits<op, C>{reduction, splits, sums});
}

template <class C>
struct Extreme {
  C value;
  std::int64_t index;
};

/// The first of the largest (smallest) numbers of a line; the first NaN, if there is one.
template <bool largest, class C>
struct FindExtreme {
  Lines<3> lines;  // x, values, indices
  std::int64_t length;

  RONDO_HD static bool better(const Extreme<C>& a, const Extreme<C>& b) {
    if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan;
    if (!a_nan && a.value != b.value) return largest ? a.value > b.value : a.value < b.value;
    return a.index < b.index;
  }
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    Extreme<C> best{C(0), -1};
    for (std::int64_t i = group.thread(); i < length; i += group.size()) {
      const Extreme<C> here{load<C>(lines.starts.dtypes[0], at.at[0] + i * lines.steps[0]), i};
      if (better(here, best)) best = here;
    }
    best = group.reduce(
        best, [](const Extreme<C>& a, const Extreme<C>& b) { return better(b, a) ? b : a; });
    if (group.thread() != 0) return;
    lines.starts.write(at, 1, best.value);
    lines.starts.write(at, 2, best.index);
  }
};

}  // namespace

void CudaBackend::reduce(ReduceOp op, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  visit_reduce(op, [&]<ReduceOp o>() {
    visit_compute_type(x.dtype(), [&]<class C>() { reduce_with<o, C>(device_, x, y); });
  });
}

void CudaBackend::extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                           const Tensor& indices) {
  const std::int64_t n = size_along(x, dim);
  require<ShapeError>(n > 0 || values.numel() == 0, "max/min: dimension ", dim, " of ", x.shape(),
                      " is empty");
  const Lines<3> lines(dim, {&x, &values, &indices});
  visit_compute_type(x.dtype(), [&]<class C>() {
    if (largest) {
      for_rows(device_, lines.count, n, FindExtreme<true, C>{lines, n});
    } else {
      for_rows(device_, lines.count, n, FindExtreme<false, C>{lines, n});
    }
  });
}

}  // namespace rondo::cuda
