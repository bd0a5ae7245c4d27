// Predicts the nodes of a tape without running the program.
//
// start fails: you predicted 3 nodes "accumulate_grad", but the tape has 2
#include <rondo/rondo.h>

#include <iostream>
#include <map>
#include <set>
#include <string>

namespace rd = rondo;
using rondo::Tensor;

/// How many nodes of each name are on the tape of the program that start.cpp shows.
std::map<std::string, int> predict();

namespace {

void count(const rd::Node* node, std::set<const rd::Node*>& seen,
           std::map<std::string, int>& counts) {
  if (node == nullptr || !seen.insert(node).second) return;
  ++counts[node->name()];
  for (const rd::Edge& edge : node->edges) count(edge.node.get(), seen, counts);
}

int run() {
  const Tensor x = rd::rand({8, 2}), y = rd::rand({8, 4});
  Tensor w = rd::rand({4, 2}).requires_grad_(), b = rd::rand({4}).requires_grad_();
  Tensor h = linear(x, w, b);
  Tensor error = mean(square(h - y));
  Tensor penalty = sum(square(w));
  Tensor loss = error + penalty * 0.01;

  std::set<const rd::Node*> seen;
  std::map<std::string, int> tape;
  count(gradient_edge(loss).node.get(), seen, tape);
  std::map<std::string, int> predicted = predict();
  for (const auto& [name, n] : predicted)
    rd::require(n == tape[name], "you predicted ", n, " nodes \"", name, "\", but the tape has ",
                tape[name]);
  for (const auto& [name, n] : tape)
    rd::require(predicted[name] == n, "the tape has ", n, " nodes \"", name,
                "\", but you predicted ", predicted[name]);
  std::cout << "all " << seen.size() << " nodes are predicted\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
