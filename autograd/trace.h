#pragma once
// TraceMode: what a tape keeps so that it can be read as a program (nn/graph.h,
// extras/onnx/onnx.h), not only run backwards.
//
// For gradients, a node saves only what its derivative needs. Code that computes the forward again
// elsewhere needs two more things. First, the op's arguments other than its tensor inputs
// (strides, dimensions, scalars); every node can report them at any time: Node::attributes. Second,
// the inputs that get no gradient (scalars, masks, running statistics). They are kept only under
// TraceMode, because they cost memory.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Receives the arguments of an op from Node::attributes.
class AttributeVisitor {
 public:
  virtual ~AttributeVisitor() = default;
  virtual void integer(const char* name, std::int64_t value) = 0;
  virtual void integers(const char* name, const Dims& values) = 0;
  virtual void real(const char* name, double value) = 0;
  virtual void text(const char* name, std::string_view value) = 0;
  virtual void tensor(const char* name, const Tensor& value) = 0;
};

using Attribute = std::variant<std::int64_t, Dims, double, std::string, Tensor>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// The attributes of `node`, by name.
Attributes attributes_of(Node& node);

/// In this scope, nodes keep those of their inputs that are not on the tape. Composed ops that have
/// a well-known name (layer_norm, batch_norm in evaluation) record one node; backward through that
/// node throws AutogradError.
class TraceMode {
 public:
  TraceMode() : previous_(is_enabled()) { set_enabled(true); }
  ~TraceMode() { set_enabled(previous_); }
  TraceMode(const TraceMode&) = delete;
  TraceMode& operator=(const TraceMode&) = delete;
  static bool is_enabled();

 private:
  static void set_enabled(bool enabled);
  bool previous_;
};

/// What a node keeps under TraceMode.
struct TracedInputs {
  /// One for each edge: the input, without a place on the tape. Undefined if the edge leads to a
  /// node or if the input was absent. (With its place on the tape, the input of an in-place op
  /// would own its own node.)
  Tensors constants;
  std::vector<std::uint64_t> versions;         // of the constants, when they were used
  std::vector<std::uint64_t> output_versions;  // of the node's outputs, when it had made them
};

/// Input i of `node`, if it is not on the tape. Undefined if it is on the tape, if input i
/// was absent, and for nodes created without TraceMode. Throws AutogradError if the input was
/// modified since.
Tensor constant_input(const Node& node, std::size_t i);

/// Throws AutogradError if x is on a tape made under TraceMode and was written without recording
/// since its node made it, as through detach() or under NoGradGuard: a trace misses such a write.
void require_traced(const Tensor& x);

}  // namespace rondo
