// The tape of a block with a residual connection that a net uses twice, as a text for Graphviz.
#include <rondo/rondo.h>

#include <iostream>

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

struct Block : nn::Module {
  nn::Linear fc{8, 8};
  Tensor forward(const Tensor& x) override { return x + relu(fc(x)); }
  void visit(nn::Visitor& v) override { v.child("fc", fc); }
};

int main() {
  Block block;
  const Tensor loss = mean(block(block(rd::ones({4, 8}))));
  std::cout << tape_graph(loss, block.named_parameters());
}
