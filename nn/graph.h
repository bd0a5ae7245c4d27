#pragma once
// A model as the graph of the ops that it runs: graph_of for pictures
// (extras/tensorboard/summary_writer.h), trace for code that runs the same computation elsewhere
// (extras/onnx/onnx.h).

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/trace.h"
#include "nn/model_call.h"
#include "nn/module.h"

namespace rondo::nn {

/// An argument of an op: output `output` of node `node` of the graph. If node is -1, the argument
/// is `constant`, which is undefined if the op had no such argument (a layer without bias).
struct GraphArgument {
  std::int64_t node = -1;
  int output = 0;
  Tensor constant = {};
};

struct GraphNode {
  std::string name;                 // unique; "layer1.0.conv1.conv2d", "layer1.0.add_2", "input"
  std::string op;                   // "conv2d", "parameter", "input"
  std::vector<std::string> inputs;  // names; "split:1" is the second output, as in TensorFlow
  std::vector<Dims> shapes;         // of the node's outputs
  // Set only by trace:
  std::string scope = {};                     // the module that ran it: "layer1.0.conv1"
  std::vector<DType> dtypes = {};             // of the node's outputs
  Attributes attributes = {};                 // the op's arguments other than tensors
  std::vector<GraphArgument> arguments = {};  // in the order of the op's arguments
  Tensor value = {};                          // of a parameter
};

/// The ops that model(input) records in eval mode; each node comes after its inputs. Restores the
/// modules' modes and the grad mode afterwards. A floating-point input is treated as requiring a
/// gradient; ops through which no gradient flows are missing from the graph. Throws what the
/// forward throws.
std::vector<GraphNode> graph_of(Module& model, const Tensor& input);

struct Trace {
  std::vector<GraphNode> nodes;
  std::vector<std::pair<std::string, GraphArgument>>
      outputs;  // a constant if no gradient flows to it
};

/// What call.run(inputs) records, with everything needed to run the graph again. All parameters are
/// treated as requiring gradients, and each normalisation is one node (TraceMode). A value computed
/// without gradients becomes a constant, even if it depends on the input; to find such constants,
/// compare two traces with different inputs. Throws AutogradError for constants that are
/// overwritten afterwards.
Trace trace(const ModelCall& call, const Tensors& inputs);
/// A tensor like x with other elements, for traces that are compared: ordinary numbers, large ones,
/// zeros, NaN. Of these four kinds, forward may refuse all but the first. Indices are counted from
/// the other end, so they stay inside any table that x fits. Throws Error naming `function` if
/// x has only zeros as indices.
Tensor other_elements(const Tensor& x, int kind, const char* function);
inline constexpr int kinds_of_other_elements = 4;
/// trace(call, inputs) of other elements; nothing if forward throws and may refuse them, or if no
/// input is floating-point, so that they are those of kind 0. Restores the parameters and buffers
/// that forward writes. Throws Error if one of them, or another tensor, is a part of `first`.
std::optional<Trace> trace_again(const ModelCall& call, const Tensors& inputs, int kind,
                                 const Trace& first);
/// Whether an attribute is the same in two traces. NaN is NaN. Tensors are not compared.
bool same_attribute(const Attribute& a, const Attribute& b);
/// The inputs are the arguments of the model's forward.
template <std::derived_from<Module> M, class... Inputs>
Trace trace(M& model, const Inputs&... inputs) {
  const ModelCall call = call_of(model, inputs...);
  Tensors tensors;
  for (const NamedTensor& input : call.inputs) tensors.push_back(input.tensor);
  return trace(call, tensors);
}

}  // namespace rondo::nn
