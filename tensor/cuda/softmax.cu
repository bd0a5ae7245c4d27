// softmax and log_softmax along one dimension, and their gradients. Each line is read twice, the
// second time from the cache: for its largest number and the sum of exp(x - largest), and for the
// result. NaN and +inf make their whole line NaN, as in tensor/cpu/softmax.cpp.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/exp_sum.cuh"
#include "tensor/cuda/lines.cuh"

namespace rondo::cuda {
namespace {

template <class C, class T>
struct SoftmaxLine {
  Lines<2> lines;  // x, y
  std::int64_t length;
  bool log;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    using Line = Run<C, T>;
    const auto at = lines.starts.locate(line);
    const Line x(lines, at, 0), y(lines, at, 1);
    const std::int64_t packs = length / Line::width;
    ExpSum<C> exps;
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) exps.add(x.load(i));
    exps.join(group);
    const C top = exps.top, scale = log ? std::log(exps.sum) : 1 / exps.sum;
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      auto numbers = x.load(i);
      for (C& v : numbers.v) v = log ? v - top - scale : std::exp(v - top) * scale;
      y.store(i, numbers);
    }
  }
};

/// dx = y (dy - Σ dy y), or for the logarithm dx = dy - exp(y) Σ dy.
template <class C, class T>
struct SoftmaxGradient {
  Lines<3> lines;  // dy, y, dx
  std::int64_t length;
  bool log;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    using Line = Run<C, T>;
    const auto at = lines.starts.locate(line);
    const Line dy(lines, at, 0), y(lines, at, 1), dx(lines, at, 2);
    const std::int64_t packs = length / Line::width;
    C sum = 0;
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      const auto g = dy.load(i), of_y = y.load(i);
      for (int k = 0; k < Line::width; ++k) sum += log ? g.v[k] : g.v[k] * of_y.v[k];
    }
    sum = group.reduce(sum, [](C a, C b) { return a + b; });
    for (std::int64_t i = group.thread(); i < packs; i += group.size()) {
      auto g = dy.load(i);
      const auto of_y = y.load(i);
      for (int k = 0; k < Line::width; ++k)
        g.v[k] = log ? g.v[k] - std::exp(of_y.v[k]) * sum : of_y.v[k] * (g.v[k] - sum);
      dx.store(i, g);
    }
  }
};

}  // namespace

void CudaBackend::do_softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
  const Lines<2> lines(dim, {&x, &y});
  const std::int64_t n = size_along(x, dim);
  visit_runs("softmax", lines, 2, n, [&]<class C, class T>() {
    for_runs<C, T>(device_, lines, n, SoftmaxLine<C, T>{lines, n, log});
  });
}

void CudaBackend::do_softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                      const Tensor& dx) {
  const Lines<3> lines(dim, {&dy, &y, &dx});
  const std::int64_t n = size_along(y, dim);
  visit_runs("softmax_backward", lines, 3, n, [&]<class C, class T>() {
    for_runs<C, T>(device_, lines, n, SoftmaxGradient<C, T>{lines, n, log});
  });
}

}  // namespace rondo::cuda
