// softmax and log_softmax along one dimension, and their gradients:
//
//   softmax(x)_i     = exp(x_i - m) / s        with m = max_j x_j, s = sum_j exp(x_j - m)
//   log_softmax(x)_i = x_i - m - log s
//   dx_i = y_i (dy_i - sum_j dy_j y_j),   for the logarithm   dx_i = dy_i - exp(y_i) sum_j dy_j
//
// Subtracting the maximum first keeps exp from overflowing; it cancels in the result. The sum is
// kept in double. A NaN or a +inf makes its whole line NaN, as in PyTorch.

#include <cmath>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/cpu/log_sum_exp.h"

namespace rondo::cpu {
namespace {

// y = softmax(x) for dense lines; y may be x.
void softmax_line(bool log, const float* x, std::int64_t n, float* y) {
  (log ? kernels().softmax.log_softmax : kernels().softmax.softmax)(x, n, y);
}
void softmax_line(bool log, const double* x, std::int64_t n, double* y) {
  if (log) {
    const auto [top, log_sum] = log_sum_exp(x, n);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - top - log_sum;
    return;
  }
  const double top = reduce_run<ReductionOp::max>(x, n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = std::exp(x[i] - top);
    sum += y[i];
  }
  const double scale = 1 / sum;
  for (std::int64_t i = 0; i < n; ++i) y[i] *= scale;
}

// dx of such a line; dx may be dy.
void gradient_line(bool log, const float* dy, const float* y, std::int64_t n, float* dx) {
  const SoftmaxKernels& of = kernels().softmax;
  (log ? of.log_softmax_gradient : of.softmax_gradient)(dy, y, n, dx);
}
void gradient_line(bool log, const double* dy, const double* y, std::int64_t n, double* dx) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += log ? dy[i] : dy[i] * y[i];
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = log ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
}

}  // namespace

void CpuBackend::do_softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
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

void CpuBackend::do_softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                     const Tensor& dx) {
  const std::int64_t n = size_along(y, dim);
  const std::int64_t dy_stride = stride_along(dy, dim), y_stride = stride_along(y, dim);
  const std::int64_t dx_stride = stride_along(dx, dim);
  visit_float_compute(y.dtype(), "softmax_backward", [&]<class C>() {
    const bool dx_dense = dx.dtype() == dtype_of<C> && dx_stride == 1;
    auto make_body = [&] {
      return [&, in = std::vector<C>(n), from = std::vector<C>(n),
              out = std::vector<C>(n)](const Offsets<3>& at) mutable {
        const C* g = dense_line(dy.dtype(), dy.data_ptr(), at[0], dy_stride, n, in.data());
        const C* p = dense_line(y.dtype(), y.data_ptr(), at[1], y_stride, n, from.data());
        C* to = dx_dense ? static_cast<C*>(dx.data_ptr()) + at[2] : out.data();
        gradient_line(log, g, p, n, to);
        if (!dx_dense) store(dx.dtype(), dx.data_ptr(), at[2], dx_stride, n, to);
      };
    };
    for_each_line(dim, make_body, dy, y, dx);
  });
}

}  // namespace rondo::cpu
