// The order in which backward runs the nodes of a diamond with two leaves.
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
  for (const Tensor& t : {a, b, c, d, y}) {
    const rondo::Node* node = gradient_edge(t).node.get();
    register_hook(t, [node, first](const Tensor&) {
      std::cout << node->name() << ", node " << node->sequence - first << "\n";
      return Tensor();
    });
  }
  register_post_accumulate_grad_hook(x,
                                     [](const Tensor&) { std::cout << "accumulate_grad of x\n"; });
  register_post_accumulate_grad_hook(w,
                                     [](const Tensor&) { std::cout << "accumulate_grad of w\n"; });
  y.backward();
}
