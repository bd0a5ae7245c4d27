// squareplus with a kernel of its own. The kernel believes that the elements are one after another.
#include <cmath>

#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

/// y = f(x), element by element.
template <class F>
void for_each_element(const Tensor& x, const Tensor& y, F f) {
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) to[i] = f(from[i]);
}

Tensor forward(const Tensor& x) {
  const Tensor y = Tensor::empty(x.shape());
  for_each_element(x, y, [](float v) { return (v + std::sqrt(v * v + 4)) / 2; });
  return y;
}

}  // namespace

Tensor squareplus(const Tensor& x) { return forward(x); }
