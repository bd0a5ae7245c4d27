// Cumulative sums along one dimension: a group processes as many elements of a line at a time as it
// has threads. It computes the sum up to each element and adds the sum of all earlier elements.
// Floats are summed in double, as in tensor/cpu/scan.cpp.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"

namespace rondo::cuda {
namespace {

template <class C>
struct CumulativeSum {
  using Sum = std::conditional_t<std::is_same_v<C, std::int64_t>, unsigned long long, double>;
  Lines<2> lines;  // x, y
  std::int64_t length;
  bool reverse;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    Sum before = 0;
    for (std::int64_t first = 0; first < length; first += group.size()) {
      const std::int64_t i = first + group.thread(), place = reverse ? length - 1 - i : i;
      Sum value = 0, total = 0;
      if (i < length)
        value =
            static_cast<Sum>(load<C>(lines.starts.dtypes[0], at.at[0] + place * lines.steps[0]));
      value = group.scan(value, total);
      if (i < length)
        store(lines.starts.dtypes[1], at.at[1] + place * lines.steps[1],
              static_cast<C>(before + value));
      before += total;
    }
  }
};

}  // namespace

void CudaBackend::do_cumsum(const Tensor& x, std::int64_t dim, bool reverse, const Tensor& y) {
  const Lines<2> lines(dim, {&x, &y});
  const std::int64_t n = size_along(x, dim);
  if (is_floating(x.dtype())) {
    for_rows(device_, lines.count, n, CumulativeSum<double>{lines, n, reverse});
  } else {
    for_rows(device_, lines.count, n, CumulativeSum<std::int64_t>{lines, n, reverse});
  }
}

}  // namespace rondo::cuda
