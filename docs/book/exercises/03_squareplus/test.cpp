// A new element-wise op with a kernel: its values for any strides, and its derivative.
//
// start fails: squareplus of a transposed matrix is wrong
#include <rondo/rondo.h>

#include <iostream>

#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

Tensor by_other_ops(const Tensor& x) { return (x + sqrt(square(x) + 4.0)) * 0.5; }

void check(const char* what, const Tensor& x) {
  const Tensor y = squareplus(x), expected = by_other_ops(x);
  rd::require(y.shape() == x.shape(), "squareplus of ", what, " has shape ", y.shape());
  rd::require(allclose(y, expected), "squareplus of ", what, " is wrong");
}

int run() {
  rd::manual_seed(1);
  const Tensor x = rd::randn({3, 4});
  check("a matrix", x);
  check("a transposed matrix", x.t());
  check("some columns", x.narrow(1, 1, 2));
  check("an expanded row", expand(x.narrow(0, 1, 1), {5, 4}));
  check("a scalar", rd::scalar(2.0, {.dtype = rd::f32}));
  check("nothing", rd::zeros({0, 4}));

  Tensor a = rd::randn({3, 4}).requires_grad_(), b = a.detach().clone().requires_grad_();
  const Tensor weight = rd::randn({4, 3});
  const Tensor y = squareplus(a.t());
  rd::require(y.requires_grad(), "squareplus is not on the tape");
  sum(y * weight).backward();
  sum(by_other_ops(b.t()) * weight).backward();
  rd::require(allclose(a.grad(), b.grad()), "the gradient of squareplus is wrong");
  std::cout << "squareplus is right for all strides, and has a gradient\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
