// A broadcast that copies.
#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

Tensor broadcast(const Tensor& x, const rd::Dims& to) {
  Tensor y = zeros(to);
  y.add_(x);
  return y;
}
