// softmax and log_softmax along one dimension, and their gradients: of each line its maximum, the
// sum of exp(x - maximum), and the result, in three walks over a line that the cache holds. NaN and
// +inf make their whole line NaN, as in tensor/cpu/softmax.cpp.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/fold.h"

namespace rondo::cuda {
namespace {

template <bool log, class C>
struct Softmax {
  Lines<2> lines;  // x, y
  std::int64_t length;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    using Max = Fold<FoldOp::max>;
    const auto at = lines.starts.locate(line);
    auto x = [&](std::int64_t i) {
      return load<C>(lines.starts.dtypes[0], at.at[0] + i * lines.steps[0]);
    };
    C top = Max::template identity<C>(), sum = 0;
    for (std::int64_t i = group.thread(); i < length; i += group.size()) top = Max::join(top, x(i));
    top = group.reduce(top, [](C a, C b) { return Max::join(a, b); });
    for (std::int64_t i = group.thread(); i < length; i += group.size())
      sum += std::exp(x(i) - top);
    sum = group.reduce(sum, [](C a, C b) { return a + b; });
    const C scale = log ? std::log(sum) : 1 / sum;
    for (std::int64_t i = group.thread(); i < length; i += group.size()) {
      const C y = log ? x(i) - top - scale : std::exp(x(i) - top) * scale;
      store(lines.starts.dtypes[1], at.at[1] + i * lines.steps[1], y);
    }
  }
};

/// dx = y (dy - Σ dy y), or of the logarithm dy - exp(y) Σ dy.
template <bool log, class C>
struct SoftmaxGradient {
  Lines<3> lines;  // dy, y, dx
  std::int64_t length;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    auto read = [&](int k, std::int64_t i) {
      return load<C>(lines.starts.dtypes[k], at.at[k] + i * lines.steps[k]);
    };
    C sum = 0;
    for (std::int64_t i = group.thread(); i < length; i += group.size())
      sum += log ? read(0, i) : read(0, i) * read(1, i);
    sum = group.reduce(sum, [](C a, C b) { return a + b; });
    for (std::int64_t i = group.thread(); i < length; i += group.size()) {
      const C dy = read(0, i), y = read(1, i);
      store(lines.starts.dtypes[2], at.at[2] + i * lines.steps[2],
            log ? dy - std::exp(y) * sum : y * (dy - sum));
    }
  }
};

}  // namespace

void CudaBackend::softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
  const Lines<2> lines(dim, {&x, &y});
  const std::int64_t n = size_along(x, dim);
  visit_float_compute(x.dtype(), "softmax", [&]<class C>() {
    if (log) {
      for_lines(device_, lines.count, n, lines.side_by_side(), Softmax<true, C>{lines, n});
    } else {
      for_lines(device_, lines.count, n, lines.side_by_side(), Softmax<false, C>{lines, n});
    }
  });
}

void CudaBackend::softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                   const Tensor& dx) {
  const Lines<3> lines(dim, {&dy, &y, &dx});
  const std::int64_t n = size_along(y, dim);
  visit_float_compute(y.dtype(), "softmax_backward", [&]<class C>() {
    if (log) {
      for_lines(device_, lines.count, n, lines.side_by_side(), SoftmaxGradient<true, C>{lines, n});
    } else {
      for_lines(device_, lines.count, n, lines.side_by_side(), SoftmaxGradient<false, C>{lines, n});
    }
  });
}

}  // namespace rondo::cuda
