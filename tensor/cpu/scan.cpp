// Cumulative sums along one dimension. The running sum of floats is kept in double, so that its
// error does not grow along the line.

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/functors.h"

namespace rondo::cpu {

void CpuBackend::do_cumsum(const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) {
  if (x.numel() == 0) return;
  const std::int64_t n = size_along(x, dim), x_stride = stride_along(x, dim),
                     y_stride = stride_along(y, dim);
  visit_dtype(x.dtype(), [&]<class T>() {
    using Sum = std::conditional_t<is_floating(dtype_of<T>), double, std::int64_t>;
    const T* from = x.data_ptr<T>();
    T* to = y.data_ptr<T>();
    auto make_body = [&] {
      return [&](const Offsets<2>& at) {
        const T* in = from + at[0] + (reverse ? (n - 1) * x_stride : 0);
        T* out = to + at[1] + (reverse ? (n - 1) * y_stride : 0);
        const auto scan = [&](std::int64_t x_step, std::int64_t y_step) {
          Sum sum = 0;
          for (std::int64_t i = 0; i < n; ++i) {
            sum = functors::plus(sum, convert<Sum>(in[i * x_step]));
            out[i * y_step] = convert<T>(sum);
          }
        };
        if (x_stride == 1 && y_stride == 1 && !reverse) {
          scan(1, 1);
        } else {
          scan(reverse ? -x_stride : x_stride, reverse ? -y_stride : y_stride);
        }
      };
    };
    for_each_line(dim, make_body, x, y);
  });
}

}  // namespace rondo::cpu
