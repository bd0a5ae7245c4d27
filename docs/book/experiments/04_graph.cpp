// The tape of the circle's loss, as a text for Graphviz. Between the two layers of README's net is
// a block with a residual connection, which the net uses twice.
#include <rondo/rondo.h>

#include <iostream>

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

struct Net : nn::Module {
  nn::Linear first{2, 32}, block{32, 32}, last{32, 2};
  Tensor forward(const Tensor& x) override {
    Tensor h = relu(first(x));
    for (int i = 0; i < 2; ++i) h = h + relu(block(h));
    return last(h);
  }
  void visit(nn::Visitor& v) override {
    v.child("first", first);
    v.child("block", block);
    v.child("last", last);
  }
};

int main() {
  Tensor x = rd::rand({1000, 2}) * 2.0 - 1.0;
  Tensor y = lt(sum(square(x), {1}), 0.6).to(rd::i64);
  Net net;
  const Tensor loss = cross_entropy(net(x), y);
  std::cout << tape_graph(loss, net.named_parameters());
}
