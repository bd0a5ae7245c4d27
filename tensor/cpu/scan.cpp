// Cumulative sums along one dimension. The running sum of floats is kept in double, so that its
// error does not grow along the line. An addition waits for the one before, so four lines are
// summed side by side.

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/functors.h"

namespace rondo::cpu {
namespace {

struct Step {
  std::int64_t x, y;  // elements from one to the next
};

/// Sums K lines of n elements, which begin at in[k] and out[k].
template <int K, class Sum, class T>
void sum_lines(const T* const* in, T* const* out, std::int64_t n, Step step) {
  std::array<Sum, K> sum{};
  for (std::int64_t i = 0; i < n; ++i)
    for (int k = 0; k < K; ++k) {
      sum[k] = functors::plus(sum[k], convert<Sum>(in[k][i * step.x]));
      out[k][i * step.y] = convert<T>(sum[k]);
    }
}

}  // namespace

void CpuBackend::do_cumsum(const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) {
  if (x.numel() == 0) return;
  constexpr int together = 4;
  const std::int64_t n = size_along(x, dim);
  Step step{stride_along(x, dim), stride_along(y, dim)}, first{0, 0};
  if (reverse) {
    first = {(n - 1) * step.x, (n - 1) * step.y};
    step = {-step.x, -step.y};
  }
  const Dims sizes = without(x.shape(), dim);
  visit_dtype(x.dtype(), [&]<class T>() {
    using Sum = std::conditional_t<is_floating(dtype_of<T>), double, std::int64_t>;
    parallel_for(numel_of(sizes), x.numel(), [&](std::int64_t begin, std::int64_t end) {
      Walker<2> walker(sizes, {without(x.strides(), dim), without(y.strides(), dim)});
      walker.seek(begin);
      std::array<const T*, together> in;
      std::array<T*, together> out;
      while (begin < end) {
        const std::int64_t count = std::min<std::int64_t>(together, end - begin);
        for (std::int64_t k = 0; k < count; ++k, walker.next()) {
          in[k] = x.data_ptr<T>() + walker.offsets()[0] + first.x;
          out[k] = y.data_ptr<T>() + walker.offsets()[1] + first.y;
        }
        if (count == together) {
          sum_lines<together, Sum>(in.data(), out.data(), n, step);
        } else {
          for (std::int64_t k = 0; k < count; ++k)
            sum_lines<1, Sum>(in.data() + k, out.data() + k, n, step);
        }
        begin += count;
      }
    });
  });
}

}  // namespace rondo::cpu
