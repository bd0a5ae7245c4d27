// Automatic differentiation in one page: what the tape is, what backward does, and how to check it.
//
//   build/bin/01_autograd [--device cuda]
//
// Read next: autograd/node.h (what the tape records), autograd/engine.cpp (how backward runs it).

#include <rondo/rondo.h>

#include <iostream>

#include "extras/command_line.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

/// Follows the tape from y back to the leaves and prints the name of each node on the way.
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

/// Softplus as a custom op: log(1 + e^x). Its derivative is the sigmoid.
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
  std::cout << "1. A leaf is a tensor whose gradient we want. Every op on it records a node:\n\n";
  Tensor x = rd::tensor<double>({1, 2, 3}).to(device).requires_grad_();
  Tensor y = sum(square(x) * 0.5 + exp(-x));
  print_tape(y);

  std::cout << "\n2. backward() runs the nodes in reverse order, multiplies by the derivative of "
               "each, and adds\n"
               "   the result to x.grad():  d/dx (x^2 / 2 + e^-x) = x - e^-x\n\n";
  y.backward();
  std::cout << x.grad() << "\n" << rd::no_grad([&] { return x - exp(-x); }) << "\n";

  std::cout << "\n3. backward() frees the tape. To differentiate a gradient again, record its "
               "computation\n"
               "   with create_graph:  d2/dx2 = 1 + e^-x\n\n";
  Tensor first = rd::grad({sum(square(x) * 0.5 + exp(-x))}, {x}, {.create_graph = true})[0];
  Tensor second = rd::grad({sum(first)}, {x})[0];
  std::cout << second << "\n";

  std::cout << "\n4. A custom op is a node with a backward. gradcheck compares it with finite "
               "differences:\n\n";
  auto f = [](const rd::Tensors& in) { return rd::Tensors{my_softplus(in[0])}; };
  rd::GradcheckResult once = rd::gradcheck(f, {x}), twice = rd::gradgradcheck(f, {x});
  std::cout << "first derivative " << (once ? "agrees" : once.message) << ", second "
            << (twice ? "agrees" : twice.message) << "\n";

  std::cout << "\n5. A program must not overwrite a tensor that backward needs. The tape notices "
               "it:\n\n";
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
  rd::flags::CommandLine app("Shows how automatic differentiation works");
  app.add("--device", device, "cpu, cuda or cuda:N");
  if (auto status = app.parse(argc, argv)) return *status;
  return rd::dist::run([&] { return run(rd::Device::parse(device)); });
}
