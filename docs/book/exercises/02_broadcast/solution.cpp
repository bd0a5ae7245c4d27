// A broadcast by strides: a dimension with stride 0 stays at the same elements.
#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

Tensor broadcast(const Tensor& x, const rd::Dims& to) {
  const std::int64_t added = to.size() - x.dim();
  rd::require<rd::ShapeError>(added >= 0, "broadcast: ", x.shape(), " has more dimensions than ",
                              to);
  rd::Dims strides = rd::Dims::filled(to.size(), 0);
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    const std::int64_t size = x.size(d), wanted = to[d + added];
    rd::require<rd::ShapeError>(size == wanted || size == 1, "broadcast: ", x.shape(),
                                " does not fit ", to);
    if (size == wanted) strides[d + added] = x.stride(d);
  }
  return x.as_view(to, strides, x.storage_offset());
}
