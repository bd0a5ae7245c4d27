// A backward that runs a node when it has received all its gradients, as autograd/engine.cpp does.
#include <rondo/rondo.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace rd = rondo;
using rondo::Tensor;

void run_backward(const Tensor& root) {
  const rd::NoGradGuard no_grad;
  rd::Node* first = gradient_edge(root).node.get();

  // How many gradients will arrive at each node?
  std::unordered_map<rd::Node*, int> missing;
  std::unordered_set<rd::Node*> seen = {first};
  std::vector<rd::Node*> todo = {first};
  while (!todo.empty()) {
    rd::Node* node = todo.back();
    todo.pop_back();
    for (const rd::Edge& edge : node->edges) {
      if (!edge.node) continue;
      ++missing[edge.node.get()];
      if (seen.insert(edge.node.get()).second) todo.push_back(edge.node.get());
    }
  }

  std::unordered_map<rd::Node*, Tensor> sums = {{first, ones_like(root)}};
  std::vector<rd::Node*> ready = {first};
  while (!ready.empty()) {
    rd::Node* node = ready.back();
    ready.pop_back();
    const rd::Tensors results = node->backward({sums[node]});
    for (std::size_t i = 0; i < node->edges.size(); ++i) {
      if (!node->wants(i)) continue;
      rd::Node* next = node->edges[i].node.get();
      Tensor& sum = sums[next];
      sum = sum.defined() ? sum + results[i] : results[i];
      if (--missing[next] == 0) ready.push_back(next);
    }
  }
}
