#pragma once
// Reductions over any set of dimensions.
//
// Each output has a base address in x, and the same offsets from there to all that it reduces.
// Where memory runs along the reduced dimensions, the threads of a block share out one output's
// offsets and join what they found. Where it runs along the kept ones, neighbouring threads have
// neighbouring outputs, and each goes through all of its own offsets: either way a warp reads what
// lies side by side. Few outputs would keep few blocks or threads busy, so their offsets are cut
// into splits, whose results a second kernel joins. How they are cut depends on sizes alone: the
// sums are the same in every run.

#include <algorithm>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/fold.h"

namespace rondo::cuda {

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

/// Of all offsets of all outputs, split i / outputs of output i % outputs.
template <FoldOp op, class C>
struct Splits {
  Reduction reduction;
  std::int64_t count;
  C* partial;

  /// What every `stride`-th element of split i folds to, from element `first` on.
  RONDO_HD C fold(std::int64_t i, std::int64_t first, std::int64_t stride) const {
    using F = Fold<op>;
    const std::int64_t split = i / reduction.outputs, output = i - split * reduction.outputs;
    const auto at = reduction.kept.locate(output);
    const std::int64_t end = reduction.length * (split + 1) / count;
    C total = F::template identity<C>();
    for (std::int64_t k = reduction.length * split / count + first; k < end; k += stride) {
      total =
          F::join(total, F::map(load<C>(reduction.kept.dtypes[0], at.at[0] + reduction.offset(k))));
    }
    return total;
  }
  /// Into partial or, the only one, into y.
  RONDO_HD void put(std::int64_t i, C total) const {
    if (count == 1) {
      reduction.kept.write(reduction.kept.locate(i), 1, total);
    } else {
      partial[i] = total;
    }
  }
};

template <FoldOp op, class C>
struct ReduceRow {
  Splits<op, C> splits;
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t i) const {
    const C total = group.reduce(splits.fold(i, group.thread(), group.size()),
                                 [](C a, C b) { return Fold<op>::join(a, b); });
    if (group.thread() == 0) splits.put(i, total);
  }
};

template <FoldOp op, class C>
struct ReduceColumn {
  Splits<op, C> splits;
  RONDO_HD void operator()(std::int64_t i) const { splits.put(i, splits.fold(i, 0, 1)); }
};

template <FoldOp op, class C>
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

/// How many blocks (threads) keep a GPU busy, and what each must have to do.
constexpr std::int64_t wanted_blocks = 512, shortest_of_block = 16384;
constexpr std::int64_t wanted_threads = 65536, shortest_of_thread = 64;

template <FoldOp op, class C>
void reduce_with(int device, const Tensor& x, const Tensor& y) {
  const Reduction reduction(x, y);
  const std::int64_t wanted = reduction.along_rows ? wanted_blocks : wanted_threads,
                     shortest = reduction.along_rows ? shortest_of_block : shortest_of_thread;
  const std::int64_t count = std::clamp<std::int64_t>(
      wanted / reduction.outputs, 1, std::max<std::int64_t>(reduction.length / shortest, 1));
  Tensor partial;
  if (count > 1)
    partial =
        Tensor::empty({count * reduction.outputs}, {.dtype = dtype_of<C>, .device = x.device()});
  const Splits<op, C> splits{reduction, count, count > 1 ? partial.data_ptr<C>() : nullptr};
  if (reduction.along_rows) {
    for_rows(device, count * reduction.outputs, (reduction.length + count - 1) / count,
             ReduceRow<op, C>{splits});
  } else {
    for_each(device, count * reduction.outputs, ReduceColumn<op, C>{splits});
  }
  if (count > 1)
    for_each(device, reduction.outputs, JoinSplits<op, C>{reduction, count, splits.partial});
}

}  // namespace rondo::cuda
