#pragma once
// graph_of: a model as the graph of the ops that it runs, for pictures (io/summary_writer.h).

#include <string>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

struct GraphNode {
  std::string name;                 // unique; "layer1.0.conv1.conv2d", "layer1.0.add_2", "input"
  std::string op;                   // "conv2d", "parameter", "input"
  std::vector<std::string> inputs;  // names
  std::vector<Dims> shapes;         // of its outputs
};

/// What model(input) records in eval mode, every node after its inputs; the model's modes, and the
/// gradients' mode, are put back. The input, if it is floating, is taken as wanting a gradient; an
/// op through which no gradient flows is not seen. Throws what the forward throws.
std::vector<GraphNode> graph_of(Module& model, const Tensor& input);

}  // namespace rondo::nn
