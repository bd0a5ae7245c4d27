// An op whose backward needs its input, and programs that overwrite this input too early.
//
// start fails: backward used a value that was overwritten
#include <rondo/rondo.h>

#include <functional>
#include <iostream>
#include <sstream>

namespace rd = rondo;
using rondo::Tensor;

/// x^2 for each element. backward throws AutogradError if x was written in place after this call.
Tensor my_square(const Tensor& x);

namespace {

/// Lets `write` overwrite h between the forward and the backward.
Tensor gradient_after(const std::function<void(const Tensor& h)>& write) {
  Tensor x = rd::tensor<float>({1, 2, 3}).requires_grad_();
  const Tensor h = x * 1.0;
  const Tensor y = sum(my_square(h));
  write(h);
  y.backward();
  return x.grad();
}

void must_throw(const char* what, const std::function<void(const Tensor& h)>& write) {
  try {
    gradient_after(write);
  } catch (const rd::AutogradError&) {
    return;
  }
  throw rd::Error(rd::concat("backward used a value that was overwritten: ", what));
}

void must_be(const char* what, const Tensor& gradient, const Tensor& expected) {
  std::ostringstream text;
  text << what << ": the gradient is " << gradient << " instead of " << expected;
  rd::require(allclose(gradient, expected), text.str());
}

int run() {
  const Tensor expected = rd::tensor<float>({2, 4, 6});
  must_be("nothing is written", gradient_after([](const Tensor&) {}), expected);
  must_throw("h.zero_()", [](const Tensor& h) { h.zero_(); });
  must_throw("a view of h is written", [](const Tensor& h) { h.narrow(0, 0, 1).zero_(); });
  must_be("another tensor is written", gradient_after([](const Tensor& h) { (h * 2.0).zero_(); }),
          expected);

  // Written before it was saved: this is allowed.
  Tensor x = rd::tensor<float>({1, 2, 3}).requires_grad_();
  const Tensor h = x * 1.0;
  h.mul_(3.0);
  sum(my_square(h)).backward();
  must_be("h is written before the call", x.grad(), rd::tensor<float>({18, 36, 54}));
  std::cout << "backward throws exactly if the value was overwritten\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
