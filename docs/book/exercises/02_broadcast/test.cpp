// A broadcast without a copy.
//
// start fails: the broadcast of [1, 3] to [4, 3] has memory of its own
#include <rondo/rondo.h>

#include <iostream>

#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

void check(const Tensor& x, const rd::Dims& to) {
  const Tensor y = broadcast(x, to), expected = expand(x, to);
  rd::require(y.shape() == to, "the broadcast of ", x.shape(), " to ", to, " has shape ",
              y.shape());
  rd::require(y.storage() == x.storage(), "the broadcast of ", x.shape(), " to ", to,
              " has memory of its own");
  rd::require(equal(y, expected), "the broadcast of ", x.shape(), " to ", to, " has wrong values");
}

int run() {
  const Tensor row = rd::tensor<float>({1, 2, 3}).reshape({1, 3});
  check(row, {4, 3});
  check(row, {2, 4, 3});
  check(rd::tensor<float>({5, 6}).reshape({2, 1}), {2, 7});
  const Tensor square = rd::arange(9).reshape({3, 3});
  check(square, {3, 3});
  check(square.t(), {2, 3, 3});                        // not contiguous
  check(square.narrow(1, 1, 1), {3, 5});               // does not begin at the first element
  check(rd::scalar(7.0, {.dtype = rd::f32}), {2, 2});  // no dimensions
  try {
    broadcast(square, {3, 4});
  } catch (const rd::ShapeError&) {
    std::cout << "no element was copied\n";
    return 0;
  }
  throw rd::Error("the broadcast of [3, 3] to [3, 4] must throw ShapeError");
}

}  // namespace

int main() { return rd::dist::run(run); }
