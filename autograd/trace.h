#pragma once
// TraceMode: what a tape keeps so that it can be read as a program (nn/graph.h,
// extras/onnx/onnx.h), not only run backwards.
//
// For gradients a node saves what its derivative needs, and no more. Who wants to compute the
// forward again elsewhere asks two things more. What the op was told beside its inputs, strides and
// dimensions and scalars, every node can say at any time: Node::attributes. The inputs that no
// gradient flows to, scalars and masks and running statistics, are kept under TraceMode alone,
// since keeping them costs memory.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rondo {

/// Is told what an op was told: Node::attributes.
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

/// What `node` says of itself, by name.
Attributes attributes_of(Node& node);

/// In this scope nodes keep those of their inputs that are not on the tape, and ops that are made
/// of others but known by one name everywhere (layer_norm, batch_norm in evaluation) record one
/// node, through which backward does not go (AutogradError).
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
  /// One for each edge: the input, without a place on the tape; undefined where the edge leads on,
  /// or where there was no input. (With its place, an in-place op's would own its own node.)
  Tensors constants;
  std::vector<std::uint64_t> versions;  // of those, when they were used
};

/// Input i of `node` where it is not on the tape; undefined where it is, where there was none, and
/// for nodes that were made without TraceMode. Throws AutogradError where it was modified since.
Tensor constant_input(const Node& node, std::size_t i);

}  // namespace rondo
