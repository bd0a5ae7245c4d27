#pragma once
// Node: one recorded operation. The tape is nothing but nodes and the edges between them.
//
// A forward op that computes y from x leaves a Node behind y; its `edges` lead to the nodes behind
// each x (or to the AccumulateGrad of a leaf). Backward walks the edges in reverse order of
// creation (autograd/engine.h). A node is a named struct, not a closure, so that errors, profiles
// and graph exports can say what it is and read its attributes.
//
// Your own differentiable op is made the same way as rondo's (docs/guide.md, "Your own op"):
//
//   struct CubeBackward final : Node {
//     SavedTensor x;
//     explicit CubeBackward(const Tensor& x) : x(x) {}
//     const char* name() const override { return "cube"; }
//     Tensors backward(const Tensors& dy) override {
//       Tensor x = this->x.get(*this);
//       return {dy[0] * x * x * 3.0};
//     }
//     void release_saved() override { x.reset(); }
//   };
//   Tensor cube(const Tensor& x) {
//     Tensor y = no_grad([&] { return x * x * x; });
//     return record<CubeBackward>({x}, y, x);
//   }

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace rondo {

class Node;
class AttributeVisitor;  // autograd/trace.h
struct TracedInputs;

/// "The gradient for this input goes to output `output` of `node`."; node is null where none is
/// wanted.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
};

/// What a gradient arriving for one of a node's outputs must look like.
struct OutputMeta {
  Dims shape;
  DType dtype;
  Device device;
};

class Node : public std::enable_shared_from_this<Node> {
 public:
  Node();
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// The op's name as in the C++ API: "conv2d".
  virtual const char* name() const = 0;
  /// Gradients of the inputs, one for each edge, from the gradients `dy` of the outputs. dy[i] is
  /// undefined where output i got no gradient (for a node of one output it is always defined); a
  /// result is left undefined where `wants(i)` is false or the gradient is zero.
  virtual Tensors backward(const Tensors& dy) = 0;
  /// Frees what the forward saved; called once the node has run, unless the graph is retained.
  virtual void release_saved() {}
  /// Tells what the op was told beside its inputs, strides and dimensions and scalars, under the
  /// names of the C++ API: for who reads the tape as a program (autograd/trace.h).
  virtual void attributes(AttributeVisitor&) {}

  /// Whether the gradient of input i is needed by anyone.
  bool wants(std::size_t i) const { return edges[i].node != nullptr; }

  std::vector<Edge> edges;          // one for each input of the forward op
  std::vector<OutputMeta> outputs;  // one for each output
  std::uint64_t sequence;           // order of creation; the engine runs the highest first
  std::string scope;                // where in the model, if AnomalyMode or a profiler asks
  std::shared_ptr<const TracedInputs> traced;  // what trace.h wants, under TraceMode

  /// Hooks on the gradient arriving at an output: may return a replacement.
  struct Hook {
    int output;
    std::uint64_t id;  // by which its handle finds it again
    std::function<Tensor(const Tensor&)> run;
  };
  std::vector<Hook> hooks;
};

}  // namespace rondo
