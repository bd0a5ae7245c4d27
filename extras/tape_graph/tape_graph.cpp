#include "extras/tape_graph/tape_graph.h"

#include <cstddef>
#include <unordered_map>

#include "autograd/accumulate_grad.h"
#include "autograd/autograd_meta.h"
#include "tensor/error.h"

namespace rondo {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out;
}

const AccumulateGrad* as_leaf(const Node& node) {
  return dynamic_cast<const AccumulateGrad*>(&node);
}

// Small boxes, and arrows in the order of an op's inputs: otherwise the graph of a ResNet drifts to
// the right with each block, until it is as wide as it is high.
constexpr const char* header = R"(digraph tape {
  nodesep=0.1; ranksep=0.3; ordering=out;
  node [shape=box, height=0.3];
  edge [fontsize=10];
)";

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
    if (const auto* leaf = as_leaf(node)) {
      const auto name = names.find(&leaf->leaf.impl());
      boxes += concat("  n", i, " [style=rounded, fontsize=10, label=\"",
                      name == names.end() ? "leaf" : escaped(name->second), "\\n",
                      leaf->leaf.shape(), "\"];\n");
    } else {
      boxes += concat("  n", i, " [label=\"", escaped(node.name()), "\"];\n");
    }
    for (const Edge& edge : node.edges) {
      if (edge.node == nullptr) continue;  // an input that needs no gradient
      const auto [to, is_new] = number.try_emplace(edge.node.get(), nodes.size());
      if (is_new) nodes.push_back(edge.node.get());
      const auto output = static_cast<std::size_t>(edge.output);
      arrows += concat("  n", i, " -> n", to->second);
      if (!as_leaf(*edge.node))  // its box has the shape; the space keeps a label off its arrow
        arrows += concat(" [label=\" ", edge.node->outputs[output].shape, "\"]");
      arrows += ";\n";
    }
  }
  return concat(header, boxes, arrows, "}\n");
}

}  // namespace rondo
