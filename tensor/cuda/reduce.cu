// Reductions over any set of dimensions.
//
// Each output has a base address in x. The offsets from there to the elements that it reduces are
// the same for all outputs. If memory is contiguous along the reduced dimensions, the threads of a
// block divide one output's offsets and combine their results. If it is contiguous along the kept
// ones, neighbouring threads have neighbouring outputs, and each thread visits all of its own
// offsets. In both cases a warp reads contiguous memory, 16 bytes per thread if aligned (Units).
// With few outputs, few blocks or threads would be busy; so the offsets are divided into splits,
// and a second kernel combines their results. The division depends only on sizes, strides and
// alignment: the sums are bit-identical in every run. A thread reduces in the compute type; the
// results of threads and splits are combined in a wider one (double for float).

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/reduction_rule.h"

namespace rondo::cuda {
namespace {

/// The addresses of one reduction, in units: single elements, or 16 bytes of elements.
struct ReductionAddresses {
  Operands<2> kept;     // x's first element for each output, and the output
  Operands<1> reduced;  // x's elements for the first output
  std::int64_t outputs, length;
  bool along_rows;  // memory is contiguous along the reduced dimensions
  int width = 1;    // elements of a unit: neighbours in a row, or of neighbouring outputs

  ReductionAddresses(const Tensor& x, const Tensor& y) : ReductionAddresses(split(x, y), y) {}

  /// The units of one output (along_rows), or of `width` neighbouring outputs (otherwise).
  RONDO_HD std::int64_t units() const { return along_rows ? length / width : length; }
  RONDO_HD std::int64_t groups() const { return along_rows ? outputs : outputs / width; }
  /// The offset from an output's first element to unit i.
  RONDO_HD std::int64_t offset(std::int64_t i) const {
    if (along_rows && width > 1) return i * 16;
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
  ReductionAddresses(const Views& views, const Tensor& y)
      : ReductionAddresses(views, y, Collapsed<2>({&views.kept, &y}),
                           Collapsed<1>({&views.reduced})) {}
  ReductionAddresses(const Views& views, const Tensor& y, const Collapsed<2>& k,
                     const Collapsed<1>& r)
      : kept(k, {&views.kept, &y}),
        reduced(r, {&views.reduced}),
        outputs(k.numel),
        length(r.numel),
        along_rows(outputs == 1 || (length > 1 && r.steps[0][0] <= k.steps[0][0])) {
    // 16 bytes at a time, if one side is a run of f32, bf16 or f16 and the other's steps fit it.
    const std::int64_t size = size_of(views.kept.dtype()), in_16 = 16 / size;
    if (!is_floating(views.kept.dtype()) || size == 8 || y.dtype() == f64 ||
        !is_aligned(views.kept))
      return;
    auto steps_fit = [](const auto& shape, std::size_t from) {
      for (std::size_t d = from; d < shape.dims; ++d)
        if (shape.steps[d][0] % 16 != 0) return false;
      return true;
    };
    const bool run_reduced = r.dims == 1 && r.steps[0][0] == size && length % in_16 == 0;
    const bool run_kept = k.dims > 0 && k.steps[0][0] == size && k.sizes[0] % in_16 == 0;
    if (along_rows ? run_reduced && (outputs == 1 || steps_fit(k, 0))
                   : run_kept && steps_fit(k, 1) && steps_fit(r, 0))
      width = static_cast<int>(in_16);
  }
};

/// 16 bytes of elements of any dtype.
struct alignas(16) Unit {
  unsigned words[4];
  RONDO_HD static Unit load(const char* aligned) {
    Unit unit;
    std::memcpy(&unit, __builtin_assume_aligned(aligned, 16), sizeof unit);
    return unit;
  }
};
/// Calls f(k, value) for the elements in 16 bytes.
template <class F>
RONDO_HD void each_of(DType dtype, const Unit& unit, const F& f) {
  auto as = [&]<class T>(T) {
    const auto pack = std::bit_cast<Pack<T>>(unit);
    for (int k = 0; k < Pack<T>::size; ++k) f(k, static_cast<float>(pack.values[k]));
  };
  if (dtype == DType::f32) return as(float{});
  if (dtype == DType::bf16) return as(BFloat16{});
  as(Half{});
}

/// A rule that the running kernel chooses, for doubles and integers: one kernel for all of them.
/// Each kernel of floats knows its ReductionRule when it is compiled.
struct ChosenRule {
  ReductionOp op;

  template <class C>
  RONDO_HD C identity() const {
    return with([](auto rule) { return rule.template identity<C>(); });
  }
  template <class C>
  RONDO_HD C map(C v) const {
    return with([v](auto rule) { return rule.map(v); });
  }
  template <class C>
  RONDO_HD C join(C a, C b) const {
    return with([a, b](auto rule) { return rule.join(a, b); });
  }

 private:
  template <class F>
  RONDO_HD auto with(const F& f) const {
    switch (op) {
      case ReductionOp::sum:
        return f(ReductionRule<ReductionOp::sum>{});
      case ReductionOp::prod:
        return f(ReductionRule<ReductionOp::prod>{});
      case ReductionOp::max:
        return f(ReductionRule<ReductionOp::max>{});
      case ReductionOp::min:
        return f(ReductionRule<ReductionOp::min>{});
      case ReductionOp::all:
        return f(ReductionRule<ReductionOp::all>{});
      case ReductionOp::any:
        return f(ReductionRule<ReductionOp::any>{});
      case ReductionOp::sum_squares:
        break;
    }
    return f(ReductionRule<ReductionOp::sum_squares>{});
  }
};

/// The splits of all groups: index i is split i / groups of group i % groups.
template <class Rule, class C>
struct Splits {
  Rule rule;
  ReductionAddresses reduction;
  std::int64_t count;
  Wide<C>* partial;

  /// A thread's totals for the outputs of its group: one, or as many as a unit has elements.
  struct Totals {
    C of[8];
  };
  /// The reduction of every `stride`-th unit of split i, starting at unit `first`.
  RONDO_HD Totals reduce(std::int64_t i, std::int64_t first, std::int64_t stride) const {
    const ReductionAddresses& r = reduction;
    const std::int64_t split = i / r.groups(), group = i - split * r.groups();
    const char* base = r.kept.locate(group * (r.along_rows ? 1 : r.width)).at[0];
    const std::int64_t end = r.units() * (split + 1) / count;
    Totals totals;
    for (C& total : totals.of) total = rule.template identity<C>();
    std::int64_t u = r.units() * split / count + first;
    if constexpr (std::is_same_v<C, float>) {
      if (r.width > 1) {
        auto join = [&](const Unit& unit) {
          each_of(r.kept.dtypes[0], unit, [&](int k, float value) {
            totals.of[k] = rule.join(totals.of[k], rule.map(value));
          });
        };
        auto at = [&](std::int64_t v) { return Unit::load(base + r.offset(v)); };
        for (; u + 3 * stride < end; u += 4 * stride) {  // four loads in flight at a time
          const Unit a = at(u), b = at(u + stride), c = at(u + 2 * stride), d = at(u + 3 * stride);
          join(a), join(b), join(c), join(d);
        }
        for (; u < end; u += stride) join(at(u));
        return totals;
      }
    }
    for (; u < end; u += stride) {
      totals.of[0] =
          rule.join(totals.of[0], rule.map(load<C>(r.kept.dtypes[0], base + r.offset(u))));
    }
    return totals;
  }
  /// Writes into partial (splits, outputs), or into y if there is only one split.
  RONDO_HD void put(std::int64_t split, std::int64_t output, Wide<C> total) const {
    if (count == 1) {
      reduction.kept.write(reduction.kept.locate(output), 1, total);
    } else {
      partial[split * reduction.outputs + output] = total;
    }
  }
};

template <class Rule, class C>
struct ReduceRow {
  Splits<Rule, C> splits;
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t i) const {
    const Rule& rule = splits.rule;
    const auto totals = splits.reduce(i, group.thread(), group.size());
    auto total = static_cast<Wide<C>>(totals.of[0]);
    for (int k = 1; k < 8; ++k)  // a constant bound keeps the totals in registers
      if (k < splits.reduction.width) total = rule.join(total, static_cast<Wide<C>>(totals.of[k]));
    total = group.reduce(total, [&](Wide<C> a, Wide<C> b) { return rule.join(a, b); });
    const std::int64_t split = i / splits.reduction.outputs;
    if (group.thread() == 0) splits.put(split, i - split * splits.reduction.outputs, total);
  }
};

template <class Rule, class C>
struct ReduceColumn {
  Splits<Rule, C> splits;
  RONDO_HD void operator()(std::int64_t i) const {
    const ReductionAddresses& r = splits.reduction;
    auto totals = splits.reduce(i, 0, 1);
    const std::int64_t split = i / r.groups(), output = (i - split * r.groups()) * r.width;
    for (int k = 0; k < r.width; ++k) {
      splits.put(split, output + k, static_cast<Wide<C>>(totals.of[0]));
      for (int j = 0; j < 7; ++j) totals.of[j] = totals.of[j + 1];  // an index k needs memory
    }
  }
};

template <class Rule, class C>
struct JoinSplits {
  Rule rule;
  ReductionAddresses reduction;
  std::int64_t splits;
  const Wide<C>* partial;
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t output) const {
    auto total = rule.template identity<Wide<C>>();
    for (std::int64_t s = group.thread(); s < splits; s += group.size())
      total = rule.join(total, partial[s * reduction.outputs + output]);
    total = group.reduce(total, [this](Wide<C> a, Wide<C> b) { return rule.join(a, b); });
    if (group.thread() == 0) reduction.kept.write(reduction.kept.locate(output), 1, total);
  }
};

/// The number of blocks (threads) that keep a GPU busy, and the minimum number of elements for
/// each.
constexpr std::int64_t wanted_blocks = 512, shortest_of_block = 16384;
constexpr std::int64_t wanted_threads = 65536, shortest_of_thread = 64;

template <class C, class Rule>
void reduce_with(int device, Rule rule, const Tensor& x, const Tensor& y) {
  const ReductionAddresses reduction(x, y);
  const std::int64_t wanted = reduction.along_rows ? wanted_blocks : wanted_threads,
                     shortest = reduction.along_rows ? shortest_of_block : shortest_of_thread;
  const std::int64_t count = std::clamp<std::int64_t>(
      wanted / reduction.groups(), 1, std::max<std::int64_t>(reduction.length / shortest, 1));
  Tensor partial;
  if (count > 1)
    partial = Tensor::empty({count * reduction.outputs},
                            {.dtype = dtype_of<Wide<C>>, .device = x.device()});
  const Splits<Rule, C> splits{rule, reduction, count,
                               count > 1 ? partial.data_ptr<Wide<C>>() : nullptr};
  if (reduction.along_rows) {
    for_rows(device, count * reduction.outputs, (reduction.units() + count - 1) / count,
             ReduceRow<Rule, C>{splits});
  } else {
    for_each(device, count * reduction.groups(), ReduceColumn<Rule, C>{splits});
  }
  if (count > 1)
    for_lines(device, reduction.outputs, count, false,
              JoinSplits<Rule, C>{rule, reduction, count, splits.partial});
}

}  // namespace

void CudaBackend::do_reduce(ReductionOp op, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  if (x.dtype() == f64 || y.dtype() == f64)
    return reduce_with<double>(device_, ChosenRule{op}, x, y);
  if (!is_floating(x.dtype())) return reduce_with<std::int64_t>(device_, ChosenRule{op}, x, y);
  visit_reduce(op, [&]<ReductionOp o>() { reduce_with<float>(device_, ReductionRule<o>{}, x, y); });
}

}  // namespace rondo::cuda
