// Cumulative sums, products and extremes along one dimension. Sums and products of floats are kept
// in double, so that their error does not grow along the line. A step waits for the one before, so
// four lines are scanned side by side.

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/functors.h"

namespace rondo::cpu {
namespace {

template <class T>
struct Sum {
  using Element = T;
  using Result = T;
  using State = std::conditional_t<is_floating(dtype_of<T>), double, std::int64_t>;
  State total = 0;
  Result operator()(T x, std::int64_t) {
    total = functors::plus(total, convert<State>(x));
    return convert<T>(total);
  }
};

template <class T>
struct Product {
  using Element = T;
  using Result = T;
  using State = typename Sum<T>::State;
  State total = 1;
  Result operator()(T x, std::int64_t) {
    total = functors::times(total, convert<State>(x));
    return convert<T>(total);
  }
};

/// The place of the largest (smallest) element so far.
template <class T, bool largest>
struct Extreme {
  using Element = T;
  using Result = std::int64_t;
  using Number = std::conditional_t<sizeof(T) == 2 && is_floating(dtype_of<T>), float, T>;
  Number best = 0;
  std::int64_t place = -1;
  Result operator()(T x, std::int64_t i) {
    const auto here = convert<Number>(x);
    const bool wins = (largest ? here >= best : here <= best) || here != here || place < 0;
    best = wins ? here : best;
    return place = wins ? i : place;
  }
};

struct Step {
  std::int64_t x, y;                // elements from one to the next
  std::int64_t place = 0, way = 1;  // of the first, and from one to the next
};

/// Scans K lines of n elements, which begin at in[k] and out[k].
template <int K, class Scan>
void scan_lines(const typename Scan::Element* const* in, typename Scan::Result* const* out,
                std::int64_t n, Step step) {
  std::array<Scan, K> scan{};
  for (std::int64_t i = 0; i < n; ++i)
    for (int k = 0; k < K; ++k)
      out[k][i * step.y] = scan[k](in[k][i * step.x], step.place + i * step.way);
}

template <class Scan>
void scan_all(const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) {
  constexpr int together = 4;
  const std::int64_t n = size_along(x, dim);
  Step step{stride_along(x, dim), stride_along(y, dim)}, first{0, 0};
  if (reverse) {
    first = {(n - 1) * step.x, (n - 1) * step.y};
    step = {-step.x, -step.y, n - 1, -1};
  }
  const Dims sizes = without(x.shape(), dim);
  parallel_for(numel_of(sizes), x.numel(), [&](std::int64_t begin, std::int64_t end) {
    Walker<2> walker(sizes, {without(x.strides(), dim), without(y.strides(), dim)});
    walker.seek(begin);
    std::array<const typename Scan::Element*, together> in;
    std::array<typename Scan::Result*, together> out;
    while (begin < end) {
      const std::int64_t count = std::min<std::int64_t>(together, end - begin);
      for (std::int64_t k = 0; k < count; ++k, walker.next()) {
        in[k] = x.data_ptr<typename Scan::Element>() + walker.offsets()[0] + first.x;
        out[k] = y.data_ptr<typename Scan::Result>() + walker.offsets()[1] + first.y;
      }
      if (count == together) {
        scan_lines<together, Scan>(in.data(), out.data(), n, step);
      } else {
        for (std::int64_t k = 0; k < count; ++k)
          scan_lines<1, Scan>(in.data() + k, out.data() + k, n, step);
      }
      begin += count;
    }
  });
}

}  // namespace

void CpuBackend::do_scan(ScanOp op, const Tensor& x, std::int64_t dim, bool reverse,
                         const Tensor& y) {
  if (x.numel() == 0) return;
  visit_dtype(x.dtype(), [&]<class T>() {
    switch (op) {
      case ScanOp::sum:
        return scan_all<Sum<T>>(x, dim, reverse, y);
      case ScanOp::prod:
        return scan_all<Product<T>>(x, dim, reverse, y);
      case ScanOp::max:
        return scan_all<Extreme<T, true>>(x, dim, reverse, y);
      case ScanOp::min:
        return scan_all<Extreme<T, false>>(x, dim, reverse, y);
    }
  });
}

void CpuBackend::do_cumprod_backward(const Tensor& dy, const Tensor& x, std::int64_t dim,
                                     const Tensor& dx) {
  const std::int64_t n = size_along(x, dim), step_dy = stride_along(dy, dim),
                     step_x = stride_along(x, dim), step_dx = stride_along(dx, dim);
  visit_dtype(x.dtype(), [&]<class T>() {
    auto make_body = [&] {
      return [&, before = std::vector<double>(static_cast<std::size_t>(n))](
                 const Offsets<3>& at) mutable {
        const T *of_dy = dy.data_ptr<T>() + at[0], *of_x = x.data_ptr<T>() + at[1];
        T* of_dx = dx.data_ptr<T>() + at[2];
        double product = 1, sum = 0;
        bool matters = false;  // whether a later dy is not 0: otherwise 0 times inf would be NaN
        for (std::int64_t j = 0; j < n; ++j) {
          before[static_cast<std::size_t>(j)] = product;
          product *= convert<double>(of_x[j * step_x]);
        }
        for (std::int64_t j = n; j-- > 0;) {
          sum += convert<double>(of_dy[j * step_dy]);
          matters = matters || sum != 0;
          const double dx = matters ? before[static_cast<std::size_t>(j)] * sum : 0;
          if (matters) sum *= convert<double>(of_x[j * step_x]);
          of_dx[j * step_dx] = convert<T>(dx);
        }
      };
    };
    for_each_line(dim, make_body, dy, x, dx);
  });
}

}  // namespace rondo::cpu
