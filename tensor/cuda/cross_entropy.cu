// Cross-entropy and its gradient, with the formulas of tensor/cpu/cross_entropy.cpp. The forward is
// one kernel that reads each line of the logits once (twice if labels are smoothed); the backward
// is one kernel.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/exp_sum.cuh"
#include "tensor/cuda/index_range.cuh"
#include "tensor/cuda/lines.cuh"

namespace rondo::cuda {
namespace {

template <class C, class T>
struct CrossEntropy {
  Lines<3> lines;    // logits, target, the first row of Backend::cross_entropy's `lines`
  std::int64_t row;  // elements from one row of `lines` to the next
  std::int64_t classes, ignored;
  C smoothing;
  IndexRange range;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    const Run<C, T> x(lines, at, 0);
    const std::int64_t packs = classes / x.width;
    ExpSum<C> exps;
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) exps.add(x.load(i));
    exps.join(group);
    const C top = exps.top, share = smoothing / static_cast<C>(classes);
    C shifted = 0;  // the sum of x - top; each term is scaled first, or it could overflow
    if (smoothing != 0) {
      for (std::int64_t i = group.thread(); i < packs; i += group.size())
        for (C v : x.load(i).v) shifted += share * (v - top);
      shifted = group.reduce(shifted, [](C a, C b) { return a + b; });
    }
    if (group.thread() != 0) return;
    const C log_sum = std::log(exps.sum);
    const std::int64_t index = *reinterpret_cast<const std::int64_t*>(at.at[1]);
    const bool counted = index != ignored;
    C loss = 0;
    if (counted && range.contains(index)) {
      const C of_target = load<C>(x.dtype, x.data + index * x.step);
      loss = log_sum - (1 - smoothing) * (of_target - top) - shifted;
    }
    C* out = reinterpret_cast<C*>(at.at[2]);
    out[0] = loss;
    out[row] = counted;
    out[2 * row] = top;
    out[3 * row] = log_sum;
  }
};

template <class C, class T>
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
    const Run<C, T> x(lines, at, 0), dx(lines, at, 1);
    for (std::int64_t i = group.thread(); i < classes / x.width; i += group.size()) {
      auto numbers = x.load(i);
      for (int k = 0; k < x.width; ++k) {
        const C target = share + (i * x.width + k == index ? 1 - smoothing : C(0));
        const C y = std::exp(numbers.v[k] - top - log_sum);
        numbers.v[k] = index == ignored ? C(0) : (y - target) * weight;
      }
      dx.store(i, numbers);
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
  visit_runs("cross_entropy", walked, 1, classes, [&]<class C, class T>() {
    for_runs<C, T>(device_, walked, classes,
                   CrossEntropy<C, T>{walked, lines.stride(0), classes, params.ignore_index,
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
  visit_runs("cross_entropy", walked, 2, classes, [&]<class C, class T>() {
    for_runs<C, T>(device_, walked, classes,
                   CrossEntropyGradient<C, T>{walked, lines.stride(0), classes, params.ignore_index,
                                              static_cast<C>(params.label_smoothing)});
  });
}

}  // namespace rondo::cuda
