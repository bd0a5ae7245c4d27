// An op whose backward needs its output, and the derivative of its derivative.
//
// start fails: the second derivative of my_exp(x^2) at 1 is
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>
#include <memory>

namespace rd = rondo;
using rondo::Tensor;

/// e^x for each element. Can be differentiated any number of times.
Tensor my_exp(const Tensor& x);

namespace {

int run() {
  Tensor x = rd::scalar(1.0, {.dtype = rd::f64}).requires_grad_();
  const Tensor y = my_exp(square(x));
  const Tensor first = rd::grad({y}, {x}, {.create_graph = true})[0];
  const Tensor second = rd::grad({first}, {x})[0];
  const double e = std::exp(1.0);
  rd::require(std::abs(first.item() - 2 * e) < 1e-9, "the first derivative of my_exp(x^2) at 1 is ",
              first.item(), " instead of ", 2 * e);
  rd::require(std::abs(second.item() - 6 * e) < 1e-9,
              "the second derivative of my_exp(x^2) at 1 is ", second.item(), " instead of ",
              6 * e);

  const auto f = [](const rd::Tensors& in) { return rd::Tensors{my_exp(in[0])}; };
  const auto twice = rd::gradgradcheck(f, {rd::randn({4}, {.dtype = rd::f64}).requires_grad_()});
  rd::require(twice.ok, "gradgradcheck: ", twice.message);

  // The node must not own a tensor that owns the node.
  std::weak_ptr<rd::Node> node;
  {
    const Tensor z = my_exp(x);
    node = gradient_edge(z).node;
  }
  rd::require(node.expired(), "the output is gone, but its node is still there: it owns itself");
  std::cout << "both derivatives are right, and no memory leaks\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
