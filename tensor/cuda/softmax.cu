// softmax and log_softmax along one dimension, and their gradients. Each line is read three times,
// from the cache after the first time: for its maximum, for the sum of exp(x - maximum), and for
// the result. NaN and +inf make their whole line NaN, as in tensor/cpu/softmax.cpp.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/reduction_rule.h"

namespace rondo::cuda {
namespace {

template <class C, class T>
struct SoftmaxLine {
  Lines<2> lines;  // x, y
  std::int64_t length;
  bool log;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    using Max = ReductionRule<ReductionOp::max>;
    using Line = Run<C, T>;
    const auto at = lines.starts.locate(line);
    const Line x(lines, at, 0), y(lines, at, 1);
    const std::int64_t packs = length / Line::width;
    C top = Max::template identity<C>(), sum = 0;
    for (std::int64_t i = group.thread(); i < packs; i += group.size())
      for (C v : x.load(i).v) top = Max::join(top, v);
    top = group.reduce(top, [](C a, C b) { return Max::join(a, b); });
    for (std::int64_t i = group.thread(); i < packs; i += group.size())
      for (C v : x.load(i).v) sum += std::exp(v - top);
    sum = group.reduce(sum, [](C a, C b) { return a + b; });
    const C scale = log ? std::log(sum) : 1 / sum;
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

/// Packed lines are dense, so their elements are contiguous.
template <class C, class T, std::size_t N, class Body>
void walk(int device, const Lines<N>& lines, std::int64_t length, const Body& body) {
  if constexpr (Run<C, T>::packed) {
    for_rows(device, lines.count, length / Run<C, T>::width, body);
  } else {
    for_lines(device, lines.count, length, lines.side_by_side(), body);
  }
}

}  // namespace

void CudaBackend::do_softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
  const Lines<2> lines(dim, {&x, &y});
  const std::int64_t n = size_along(x, dim);
  visit_runs("softmax", lines, 2, n, [&]<class C, class T>() {
    walk<C, T>(device_, lines, n, SoftmaxLine<C, T>{lines, n, log});
  });
}

void CudaBackend::do_softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                      const Tensor& dx) {
  const Lines<3> lines(dim, {&dy, &y, &dx});
  const std::int64_t n = size_along(y, dim);
  visit_runs("softmax_backward", lines, 3, n, [&]<class C, class T>() {
    walk<C, T>(device_, lines, n, SoftmaxGradient<C, T>{lines, n, log});
  });
}

}  // namespace rondo::cuda
