// softmax and log_softmax along one dimension:
//
//   softmax(x)_i     = exp(x_i - m) / s        with m = max_j x_j, s = sum_j exp(x_j - m)
//   log_softmax(x)_i = x_i - m - log s
//
// Taking the maximum away first keeps exp from overflowing; it cancels in the result. The sum is
// kept in double. A NaN, or a +inf, makes its whole line NaN, as in PyTorch.

#include <cmath>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/fold.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

// y = softmax(x) for dense lines; y may be x.
void softmax_line(bool log, const float* x, std::int64_t n, float* y) {
  (log ? kernels().softmax.log_softmax : kernels().softmax.softmax)(x, n, y);
}
void softmax_line(bool log, const double* x, std::int64_t n, double* y) {
  const double top = fold_run<FoldOp::max>(x, n);
  double sum = 0;
  if (log) {
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
    const double log_sum = std::log(sum);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - top - log_sum;
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = std::exp(x[i] - top);
      sum += y[i];
    }
    const double scale = 1 / sum;
    for (std::int64_t i = 0; i < n; ++i) y[i] *= scale;
  }
}

}  // namespace

void CpuBackend::softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
  const std::int64_t n = size_along(x, dim);
  const std::int64_t x_stride = stride_along(x, dim), y_stride = stride_along(y, dim);
  visit_float_compute(x.dtype(), "softmax", [&]<class C>() {
    const bool y_dense = y.dtype() == dtype_of<C> && y_stride == 1;
    auto make_body = [&] {
      return [&, in = std::vector<C>(n), out = std::vector<C>(n)](const Offsets<2>& at) mutable {
        const C* from = dense_line(x.dtype(), x.data_ptr(), at[0], x_stride, n, in.data());
        C* to = y_dense ? static_cast<C*>(y.data_ptr()) + at[1] : out.data();
        softmax_line(log, from, n, to);
        if (!y_dense) store(y.dtype(), y.data_ptr(), at[1], y_stride, n, to);
      };
    };
    for_each_line(dim, make_body, x, y);
  });
}

}  // namespace rondo::cpu
