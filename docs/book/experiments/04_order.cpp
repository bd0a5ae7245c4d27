// The order in which backward runs the nodes of a diamond with two leaves, and where each node
// sends its gradients.
#include <rondo/rondo.h>

#include <iostream>

using rondo::Tensor;

int main() {
  Tensor x = rondo::scalar(1.0).requires_grad_(), w = rondo::scalar(2.0).requires_grad_();
  const auto first = rondo::Node::next_sequence();
  Tensor a = square(x);
  Tensor b = exp(a);
  Tensor c = a * w;
  Tensor d = b + c;
  Tensor y = sum(d);

  const auto node_of = [](const Tensor& t) { return gradient_edge(t).node.get(); };
  const auto name = [x = node_of(x), w = node_of(w)](const rondo::Node* node) {
    return node == x ? "x" : node == w ? "w" : node->name();
  };
  for (const Tensor& t : {a, b, c, d, y})
    register_hook(t, [&, node = node_of(t)](const Tensor&) {
      std::cout << name(node) << ", number " << node->sequence - first;
      for (std::size_t i = 0; i < node->edges.size(); ++i)
        std::cout << (i == 0 ? ", to " : " and ") << name(node->edges[i].node.get());
      std::cout << "\n";
      return Tensor();
    });
  for (const Tensor& leaf : {x, w})
    register_post_accumulate_grad_hook(
        leaf, [&](const Tensor& t) { std::cout << name(node_of(t)) << ", number ∞\n"; });
  y.backward();
}
