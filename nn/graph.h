#pragma once
// A model as the graph of the ops that it runs: graph_of for pictures
// (extras/tensorboard/summary_writer.h), trace for who computes the same elsewhere
// (extras/onnx/onnx.h).

#include <string>
#include <vector>

#include "autograd/trace.h"
#include "nn/module.h"

namespace rondo::nn {

/// What an op was given: output `output` of node `node` of the graph, or, where that is -1,
/// `constant`, which is undefined where the op did without (a layer without bias).
struct GraphArgument {
  std::int64_t node = -1;
  int output = 0;
  Tensor constant = {};
};

struct GraphNode {
  std::string name;                 // unique; "layer1.0.conv1.conv2d", "layer1.0.add_2", "input"
  std::string op;                   // "conv2d", "parameter", "input"
  std::vector<std::string> inputs;  // names; "split:1" is the second output, as in TensorFlow
  std::vector<Dims> shapes;         // of its outputs
  // For trace alone:
  std::string scope = {};                     // the module that ran it: "layer1.0.conv1"
  std::vector<DType> dtypes = {};             // of its outputs
  Attributes attributes = {};                 // what the op was told beside its arguments
  std::vector<GraphArgument> arguments = {};  // in the order of the op's
  Tensor value = {};                          // of a parameter
};

/// What model(input) records in eval mode, every node after its inputs; the model's modes, and the
/// gradients' mode, are put back. The input, if it is floating, is taken as wanting a gradient; an
/// op through which no gradient flows is not seen. Throws what the forward throws.
std::vector<GraphNode> graph_of(Module& model, const Tensor& input);

struct Trace {
  std::vector<GraphNode> nodes;
  GraphArgument output;  // a constant where no gradient flows to it
};

/// The same with all that it takes to run the graph again. All parameters are taken as wanting
/// gradients, and normalisations are one node each (TraceMode). What was computed without gradients
/// is a constant, even where it followed from the input: two traces, of different inputs, tell
/// which constants are none. Throws AutogradError for constants that are overwritten afterwards.
Trace trace(Module& model, const Tensor& input);

}  // namespace rondo::nn
