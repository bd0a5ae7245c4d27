// Cross-entropy and its gradient, with the formulas of tensor/cpu/cross_entropy.cpp. The forward is
// one kernel that reads each line of the logits twice (for its maximum, then for the sums); the
// backward is one kernel.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/index_range.cuh"
#include "tensor/cuda/lines.cuh"
#include "tensor/reduction_rule.h"

namespace rondo::cuda {
namespace {

template <class C>
struct ExpSums {
  C exps, shifted;  // sums of exp(x - top) and of x - top
};

template <class C>
struct CrossEntropy {
  Lines<3> lines;    // logits, target, the first row of Backend::cross_entropy's `lines`
  std::int64_t row;  // elements from one row of `lines` to the next
  std::int64_t classes, ignored;
  C smoothing;
  IndexRange range;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    using Max = ReductionRule<ReductionOp::max>;
    const auto at = lines.starts.locate(line);
    auto x = [&](std::int64_t c) {
      return load<C>(lines.starts.dtypes[0], at.at[0] + c * lines.steps[0]);
    };
    C top = Max::template identity<C>();
    for (std::int64_t c = group.thread(); c < classes; c += group.size())
      top = Max::join(top, x(c));
    top = group.reduce(top, [](C a, C b) { return Max::join(a, b); });
    const C share = smoothing / static_cast<C>(classes);
    ExpSums<C> sums{0, 0};  // each term is scaled first, because the unscaled sum could overflow
    for (std::int64_t c = group.thread(); c < classes; c += group.size()) {
      const C shifted = x(c) - top;
      sums.exps += std::exp(shifted);
      sums.shifted += share * shifted;
    }
    sums = group.reduce(sums, [](const ExpSums<C>& a, const ExpSums<C>& b) {
      return ExpSums<C>{a.exps + b.exps, a.shifted + b.shifted};
    });
    if (group.thread() != 0) return;
    const C log_sum = std::log(sums.exps);
    const std::int64_t index = *reinterpret_cast<const std::int64_t*>(at.at[1]);
    const bool counted = index != ignored;
    C loss = 0;
    if (counted && range.contains(index)) {
      loss = log_sum - (1 - smoothing) * (x(index) - top);
      if (smoothing != 0) loss -= sums.shifted;
    }
    C* out = reinterpret_cast<C*>(at.at[2]);
    out[0] = loss;
    out[row] = counted;
    out[2 * row] = top;
    out[3 * row] = log_sum;
  }
};

template <class C>
struct CrossEntropyGradient {
  Lines<5> lines;  // logits, dlogits, target, dloss, the first row of `lines`
  std::int64_t row;
  std::int64_t classes, ignored;
  C smoothing;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    const std::int64_t index = *reinterpret_cast<const std::int64_t*>(at.at[2]);
    const C weight = *reinterpret_cast<const C*>(at.at[3]);
    const C* in = reinterpret_cast<const C*>(at.at[4]);
    const C top = in[2 * row], log_sum = in[3 * row];
    const C share = smoothing / static_cast<C>(classes);
    for (std::int64_t c = group.thread(); c < classes; c += group.size()) {
      const C x = load<C>(lines.starts.dtypes[0], at.at[0] + c * lines.steps[0]);
      const C target = share + (c == index ? 1 - smoothing : C(0));
      const C dx = index == ignored ? C(0) : (std::exp(x - top - log_sum) - target) * weight;
      store(lines.starts.dtypes[1], at.at[1] + c * lines.steps[1], dx);
    }
  }
};

}  // namespace

void CudaBackend::do_cross_entropy(const Tensor& logits, const Tensor& target,
                                   const CrossEntropyParams& params, const Tensor& lines) {
  const std::int64_t classes = logits.size(1);
  const Tensor first = first_row(lines);
  const Lines<3> walked(1, {&logits, &target, &first});
  const IndexRange range{index_note(device_), called_op("cross_entropy"), 1, classes};
  visit_float_compute(logits.dtype(), "cross_entropy", [&]<class C>() {
    for_lines(device_, walked.count, classes, walked.side_by_side(),
              CrossEntropy<C>{walked, lines.stride(0), classes, params.ignore_index,
                              static_cast<C>(params.label_smoothing), range});
  });
}

void CudaBackend::do_cross_entropy_backward(const Tensor& dloss, const Tensor& logits,
                                            const Tensor& target, const Tensor& lines,
                                            const CrossEntropyParams& params,
                                            const Tensor& dlogits) {
  const std::int64_t classes = logits.size(1);
  const Tensor first = first_row(lines);
  const Lines<5> walked(1, {&logits, &dlogits, &target, &dloss, &first});
  visit_float_compute(logits.dtype(), "cross_entropy", [&]<class C>() {
    for_lines(device_, walked.count, classes, walked.side_by_side(),
              CrossEntropyGradient<C>{walked, lines.stride(0), classes, params.ignore_index,
                                      static_cast<C>(params.label_smoothing)});
  });
}

}  // namespace rondo::cuda
