#include "extras/tape_graph/tape_graph.h"

#include <cstddef>
#include <unordered_map>

#include "autograd/accumulate_grad.h"
#include "autograd/autograd_meta.h"
#include "tensor/error.h"

namespace rondo {
namespace {

std::string quoted(const std::string& text) {
  std::string escaped;
  for (const char c : text)
    escaped += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return concat('"', escaped, '"');
}

}  // namespace

std::string tape_graph(const Tensor& y, const std::vector<nn::NamedTensor>& parameters) {
  const Edge root = gradient_edge(y);
  require<AutogradError>(root.node != nullptr, "tape_graph: the tensor",
                         y.defined() ? concat(" of shape ", y.shape()) : " is undefined and",
                         " has no tape; compute it, with recording on, from a tensor that requires "
                         "a gradient");
  std::unordered_map<const TensorImpl*, std::string> names;
  for (const nn::NamedTensor& p : parameters) names.try_emplace(&p.tensor.impl(), p.name);

  // Breadth first, without recursion: a tape may have hundreds of thousands of nodes.
  std::vector<const Node*> nodes = {root.node.get()};
  std::unordered_map<const Node*, std::size_t> number = {{nodes[0], 0}};
  std::string boxes, arrows;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(&node)) {
      const auto name = names.find(&leaf->leaf.impl());
      boxes += concat(
          "  n", i, " [style=rounded, label=",
          quoted(concat(name == names.end() ? "leaf" : name->second, " ", leaf->leaf.shape())),
          "];\n");
    } else {
      boxes += concat("  n", i, " [label=", quoted(node.name()), "];\n");
    }
    for (const Edge& edge : node.edges) {
      if (edge.node == nullptr) continue;  // an input that needs no gradient
      const auto [to, is_new] = number.try_emplace(edge.node.get(), nodes.size());
      if (is_new) nodes.push_back(edge.node.get());
      const auto output = static_cast<std::size_t>(edge.output);
      arrows += concat("  n", i, " -> n", to->second,
                       " [label=", quoted(concat(edge.node->outputs[output].shape)), "];\n");
    }
  }
  return concat("digraph tape {\n  node [shape=box];\n", boxes, arrows, "}\n");
}

}  // namespace rondo
