#include "nn/graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/accumulate_grad.h"
#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "nn/eval_mode.h"

namespace rondo::nn {
namespace {

/// All nodes behind `root`, in the order in which they were recorded, but leaves first.
std::vector<Node*> nodes_behind(Node* root) {
  std::vector<Node*> todo = {root}, nodes;
  std::set<Node*> seen = {root};
  while (!todo.empty()) {
    Node* node = todo.back();
    todo.pop_back();
    nodes.push_back(node);
    for (const Edge& edge : node->edges)
      if (edge.node && seen.insert(edge.node.get()).second) todo.push_back(edge.node.get());
  }
  const auto order = [](const Node* node) {
    return std::pair(dynamic_cast<const AccumulateGrad*>(node) == nullptr, node->sequence);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](const Node* a, const Node* b) { return order(a) < order(b); });
  return nodes;
}

/// "name", then "name_1", "name_2" …
std::string unique(std::map<std::string, int>& used, const std::string& name) {
  const int before = used[name]++;
  return before == 0 ? name : concat(name, "_", before);
}

}  // namespace

std::vector<GraphNode> graph_of(Module& model, const Tensor& input) {
  const EvalMode eval(model);
  const GradModeGuard recording(true);
  const AnomalyMode scopes;  // nodes remember the module that made them
  Tensor x = input.detach();
  if (is_floating(x.dtype())) x.requires_grad_();
  const Tensor y = model(x);
  std::vector<GraphNode> graph;
  const Edge last = gradient_edge(y);
  if (!last.node) return graph;

  std::map<const TensorImpl*, std::string> leaves = {{&x.impl(), "input"}};
  for (const auto& [name, p] : model.named_parameters()) leaves.emplace(&p.impl(), name);
  std::map<const Node*, std::string> names;
  std::map<std::string, int> used;
  for (Node* node : nodes_behind(last.node.get())) {
    GraphNode entry{.op = node->name()};
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
      const auto known = leaves.find(&leaf->leaf.impl());
      entry.op = leaf->leaf.is_same(x) ? "input" : "parameter";
      entry.name = unique(used, known == leaves.end() ? "constant" : known->second);
      entry.shapes = {leaf->leaf.shape()};
    } else {
      entry.name = unique(used, node->scope.empty() ? entry.op : node->scope + "." + entry.op);
      for (const OutputMeta& output : node->outputs) entry.shapes.push_back(output.shape);
    }
    for (const Edge& edge : node->edges)
      if (edge.node) entry.inputs.push_back(names.at(edge.node.get()));
    names.emplace(node, entry.name);
    graph.push_back(std::move(entry));
  }
  return graph;
}

}  // namespace rondo::nn
