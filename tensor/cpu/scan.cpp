// Cumulative sums along one dimension. The running sum of floats is kept in double, so that its
// error does not grow along the line.

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/functors.h"

namespace rondo::cpu {

void CpuBackend::do_cumsum(const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) {
  const std::int64_t n = size_along(x, dim);
  const std::int64_t first = reverse ? n - 1 : 0, step = reverse ? -1 : 1;
  auto scan = [&]<class C>() {
    auto make_body = [&] {
      return [&, line = std::vector<C>(n)](const Offsets<2>& at) mutable {
        load(x.dtype(), x.data_ptr(), at[0], stride_along(x, dim), n, line.data());
        C sum = 0;
        for (std::int64_t i = first, left = n; left > 0; --left, i += step) {
          sum = functors::plus(sum, line[i]);
          line[i] = sum;
        }
        store(y.dtype(), y.data_ptr(), at[1], stride_along(y, dim), n, line.data());
      };
    };
    for_each_line(dim, make_body, x, y);
  };
  if (is_floating(x.dtype())) {
    scan.template operator()<double>();
  } else {
    scan.template operator()<std::int64_t>();
  }
}

}  // namespace rondo::cpu
