#pragma once
// Node: one recorded operation. The tape consists of nodes and the edges between them.
//
// A forward op that computes y from x stores a Node in y as its grad_fn. The node's `edges` lead to
// the nodes of each x (or to the AccumulateGrad of a leaf). Backward follows the edges in reverse
// order of creation (autograd/engine.h). A node is a named struct, not a closure, so that errors,
// profiles and graph exports can print its name and read its attributes.
//
// Users write a differentiable op in the same way (docs/guide/12_own_op.md):
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
//
// Read next: autograd/engine.h.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace rondo {

class Node;
class AttributeVisitor;  // autograd/trace.h
struct TracedInputs;

/// "The gradient for this input goes to output `output` of `node`." node is null if the input needs
/// no gradient.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
};

/// The shape, dtype and device that a gradient for one of a node's outputs must have.
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
  /// The gradients of the inputs, one for each edge, from the gradients `dy` of the outputs. dy[i]
  /// is undefined if output i got no gradient; the dy of a node with one output is always defined.
  /// A result may stay undefined if `wants(i)` is false or the gradient is zero.
  virtual Tensors backward(const Tensors& dy) = 0;
  /// Frees the saved tensors. Called after the node has run, unless the graph is retained.
  virtual void release_saved() {}
  /// Passes the op's arguments other than its tensor inputs (strides, dimensions, scalars) to the
  /// visitor, under their names in the C++ API. For code that reads the tape as a program
  /// (autograd/trace.h).
  virtual void attributes(AttributeVisitor&) {}

  /// Whether any node needs the gradient of input i. While `grad` runs, only nodes that lead to its
  /// inputs do.
  bool wants(std::size_t i) const;
  /// The sequence that the next node will have.
  static std::uint64_t next_sequence();

  std::vector<Edge> edges;          // one for each input of the forward op
  std::vector<OutputMeta> outputs;  // one for each output
  std::uint64_t sequence;           // order of creation; the engine runs the highest first
  std::string scope;                // where in the model; set only under AnomalyMode or a profiler
  std::shared_ptr<const TracedInputs> traced;  // the constant inputs, kept only under TraceMode
                                               // (trace.h)

  /// Hooks on the gradient of an output. A hook may return a replacement.
  struct Hook {
    int output;
    std::uint64_t id;  // by which its HookHandle finds it
    std::function<Tensor(const Tensor&)> run;
    const TensorImpl* retained_by = nullptr;  // of retain_grad: the tensor; runs after the others
  };
  std::vector<Hook> hooks;
};

}  // namespace rondo
