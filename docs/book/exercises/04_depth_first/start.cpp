// A backward that goes depth-first through the tape. Its gradients are wrong.
#include <rondo/rondo.h>

#include <unordered_map>

namespace rd = rondo;
using rondo::Tensor;

namespace {

std::unordered_map<rd::Node*, Tensor> sums;  // the gradients that have arrived at each node

void visit(rd::Node* node, const Tensor& gradient) {
  if (node->edges.empty()) {  // the node of a leaf adds to .grad
    node->backward({gradient});
    return;
  }
  Tensor& sum = sums[node];
  sum = sum.defined() ? sum + gradient : gradient;
  const rd::Tensors results = node->backward({sum});
  for (std::size_t i = 0; i < node->edges.size(); ++i) {
    if (node->wants(i)) visit(node->edges[i].node.get(), results[i]);
  }
}

}  // namespace

void run_backward(const Tensor& root) {
  const rd::NoGradGuard no_grad;
  sums.clear();
  visit(gradient_edge(root).node.get(), ones_like(root));
}
