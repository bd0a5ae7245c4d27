// Runs the tape backwards without the engine.
//
// start fails: the gradient of b = a + a; c = b + b is 6 instead of 4
#include <rondo/rondo.h>

#include <iostream>

namespace rd = rondo;
using rondo::Tensor;

/// Adds d(root) / d(leaf) into .grad of every leaf that root depends on. root has one element.
void run_backward(const Tensor& root);

namespace {

/// An addition that counts how often its backward runs.
struct CountedAdd final : rd::Node {
  int& runs;
  explicit CountedAdd(int& runs) : runs(runs) {}
  const char* name() const override { return "counted_add"; }
  rd::Tensors backward(const rd::Tensors& dy) override {
    ++runs;
    return {dy[0], dy[0]};
  }
};
Tensor twice(const Tensor& x, int& runs) {
  const Tensor y = rd::no_grad([&] { return x + x; });
  return rd::record<CountedAdd>({x, x}, y, runs);
}

int run() {
  Tensor a = rd::tensor<float>({3}).requires_grad_();
  Tensor b = a + a;
  Tensor c = b + b;
  run_backward(sum(c));
  rd::require(a.grad().item() == 4, "the gradient of b = a + a; c = b + b is ", a.grad().item(),
              " instead of 4");

  // Edges of different lengths lead to x: a node must wait for the longest way, too.
  Tensor x = rd::tensor<float>({2}).requires_grad_();
  Tensor square_of_x = x * x;
  run_backward(sum(square_of_x * x + square_of_x + x));
  rd::require(x.grad().item() == 17, "the gradient of x^3 + x^2 + x at 2 is ", x.grad().item(),
              " instead of 17");

  // 2^20 paths lead from y to z.
  Tensor z = rd::tensor<float>({1}).requires_grad_(), y = z;
  int runs = 0;
  for (int i = 0; i < 20; ++i) y = twice(y, runs);
  run_backward(y);
  rd::require(z.grad().item() == 1 << 20, "the gradient of 20 doublings is ", z.grad().item());
  rd::require(runs == 20, "the nodes of 20 doublings ran ", runs, " times: run each node once");
  std::cout << "all gradients are right, and each node ran once\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
