// Automatic differentiation in one page: what the tape is, what backward does, and how to check it.
//
//   build/bin/01_autograd [--device cuda]
//
// Read next: autograd/node.h (what is recorded), autograd/engine.cpp (how it is run).

#include <rondo/rondo.h>

#include <iostream>

#include "extras/command_line.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

/// Follows the tape from y back to the leaves and prints each node it meets first.
void print_tape(const Tensor& y) {
  std::vector<std::pair<rd::Node*, int>> stack = {{gradient_edge(y).node.get(), 0}};
  while (!stack.empty()) {
    auto [node, depth] = stack.back();
    stack.pop_back();
    if (node == nullptr) continue;
    std::cout << std::string(static_cast<std::size_t>(2 * depth), ' ') << node->name() << "\n";
    for (const rd::Edge& edge : node->edges) stack.emplace_back(edge.node.get(), depth + 1);
  }
}

/// Softplus as an op of our own: log(1 + e^x), whose derivative is the sigmoid.
struct MySoftplusBackward final : rd::Node {
  rd::SavedTensor x;
  explicit MySoftplusBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "my_softplus"; }
  rd::Tensors backward(const rd::Tensors& dy) override { return {dy[0] * sigmoid(x.get(*this))}; }
  void release_saved() override { x.reset(); }
};
Tensor my_softplus(const Tensor& x) {
  Tensor y = rd::no_grad([&] { return log1p(exp(x)); });
  return rd::record<MySoftplusBackward>({x}, y, x);
}

int run(rd::Device device) {
  std::cout
      << "1. A leaf is a tensor we want the gradient of. Every op on it leaves a node behind:\n\n";
  Tensor x = rd::tensor<double>({1, 2, 3}).to(device).requires_grad_();
  Tensor y = sum(square(x) * 0.5 + exp(-x));
  print_tape(y);

  std::cout << "\n2. backward() runs the nodes in reverse, multiplying by each one's derivative, "
               "and adds\n"
               "   into x.grad():  d/dx (x^2 / 2 + e^-x) = x - e^-x\n\n";
  y.backward();
  std::cout << x.grad() << "\n" << rd::no_grad([&] { return x - exp(-x); }) << "\n";

  std::cout << "\n3. The tape is freed as it runs. A derivative of the derivative needs one that "
               "is itself\n"
               "   recorded:  d2/dx2 = 1 + e^-x\n\n";
  Tensor first = rd::grad({sum(square(x) * 0.5 + exp(-x))}, {x}, {.create_graph = true})[0];
  Tensor second = rd::grad({sum(first)}, {x})[0];
  std::cout << second << "\n";

  std::cout << "\n4. An op of your own is a node with a backward, and gradcheck says whether it is "
               "right:\n\n";
  auto f = [](const rd::Tensors& in) { return rd::Tensors{my_softplus(in[0])}; };
  rd::GradcheckResult once = rd::gradcheck(f, {x}), twice = rd::gradgradcheck(f, {x});
  std::cout << "first derivative " << (once ? "agrees" : once.message) << ", second "
            << (twice ? "agrees" : twice.message) << "\n";

  std::cout << "\n5. What backward needs must not be overwritten. The tape notices:\n\n";
  Tensor w = rd::tensor<double>({1, 1, 1}).to(device);
  Tensor z = sum(x * w);
  w.fill_(2);
  try {
    z.backward();
  } catch (const rd::AutogradError& error) {
    std::cout << error.what() << "\n";
  }
  return once && twice ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu";
  rd::flags::CommandLine app("Shows what automatic differentiation does");
  app.add("--device", device, "cpu, cuda or cuda:N");
  if (auto status = app.parse(argc, argv)) return *status;
  return rd::dist::run([&] { return run(rd::Device::parse(device)); });
}
