// The largest (smallest) element of each line, and its index.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"

namespace rondo::cuda {
namespace {

template <class C>
struct Extreme {
  C value;
  std::int64_t index;
};

/// The first of a line's largest (smallest) elements; the first NaN, if there is one.
template <class C>
struct FindExtreme {
  Lines<3> lines;  // x, values, indices
  std::int64_t length;
  bool largest;

  RONDO_HD bool better(const Extreme<C>& a, const Extreme<C>& b) const {
    if (a.index < 0 || b.index < 0) return b.index < 0 && a.index >= 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan;
    if (!a_nan && a.value != b.value) return largest ? a.value > b.value : a.value < b.value;
    return a.index < b.index;
  }
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    Extreme<C> best{C(0), -1};
    for (std::int64_t i = group.thread(); i < length; i += group.size()) {
      const Extreme<C> here{load<C>(lines.starts.dtypes[0], at.at[0] + i * lines.steps[0]), i};
      if (better(here, best)) best = here;
    }
    best = group.reduce(
        best, [this](const Extreme<C>& a, const Extreme<C>& b) { return better(b, a) ? b : a; });
    if (group.thread() != 0) return;
    lines.starts.write(at, 1, best.value);
    lines.starts.write(at, 2, best.index);
  }
};

}  // namespace

void CudaBackend::do_extremum(bool largest, const Tensor& x, std::int64_t dim, const Tensor& values,
                              const Tensor& indices) {
  const std::int64_t n = size_along(x, dim);
  require<ShapeError>(n > 0 || values.numel() == 0, "max/min: dimension ", dim, " of ", x.shape(),
                      " is empty");
  const Lines<3> lines(dim, {&x, &values, &indices});
  visit_compute_type(x.dtype(), [&]<class C>() {
    for_rows(device_, lines.count, n, FindExtreme<C>{lines, n, largest});
  });
}

}  // namespace rondo::cuda
