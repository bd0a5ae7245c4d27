#pragma once
// How each op of rondo is written in ONNX: a table from the name of an op to a rule. To add an op,
// add a row to the table in the file of similar ops: onnx_elementwise.cpp, onnx_layers.cpp or
// onnx_shapes.cpp.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "extras/onnx/protobuf/onnx_graph.h"

namespace rondo::io::onnx {

/// What a rule gets: one step of the program and its arguments, and functions to write nodes.
class OpWriter {
 public:
  OpWriter(const OnnxStep& step, const std::vector<Names>& values, OnnxGraph& graph)
      : step_(step), values_(values), graph_(graph) {}

  const std::string& op() const { return step_.op; }
  std::size_t arguments() const { return step_.arguments.size(); }
  /// Whether argument i was given.
  bool has(std::size_t i) const {
    return i < arguments() && step_.arguments[i].kind != Operand::Kind::none;
  }
  const Operand& argument(std::size_t i) const { return step_.arguments[i]; }
  /// The name of argument i's value, in the op's dtype; a constant becomes an initialiser. Empty if
  /// the argument was not given.
  std::string in(std::size_t i);
  const Sizes& in_sizes(std::size_t i) const { return step_.arguments[i].sizes; }
  const Sizes& out_sizes(std::size_t i = 0) const { return step_.shapes[i]; }
  std::size_t outputs() const { return step_.shapes.size(); }
  DType dtype() const { return step_.dtypes[0]; }

  /// An attribute of the op. Throws Error if it is missing.
  template <class T>
  const T& told(std::string_view name) const {
    const auto found = step_.attributes.find(name);
    require(found != step_.attributes.end(), place(), " has no attribute ", name);
    return std::get<T>(found->second);
  }
  bool was_told(std::string_view name) const {
    return step_.attributes.find(name) != step_.attributes.end();
  }
  std::int64_t integer(std::string_view name) const { return told<std::int64_t>(name); }
  double real(std::string_view name) const { return told<double>(name); }
  Integers integers(std::string_view name) const {
    const Dims& values = told<Dims>(name);
    return {values.begin(), values.end()};
  }
  /// The name of the value of a tensor attribute: an index, a mask.
  std::string tensor(const std::string& name);
  /// A size that must be a constant in ONNX.
  std::int64_t fixed(const Size& size) const;

  std::string node(const std::string& op_type, const Names& inputs, AttributeList attributes = {}) {
    return nodes(op_type, inputs, attributes, 1)[0];
  }
  Names nodes(const std::string& op_type, const Names& inputs, AttributeList attributes,
              std::size_t outputs) {
    return graph_.node(op_type, inputs, attributes, step_.name, outputs);
  }
  std::string number(double value) { return graph_.number(value, dtype()); }
  std::string list(const Integers& values) { return graph_.integers(values); }
  std::string shape(const Sizes& sizes) { return graph_.shape(sizes); }
  std::string initializer(const Tensor& value, const std::string& what) {
    return graph_.initializer(value, step_.name + "." + what);
  }
  /// Reshapes `value` to the sizes of output 0.
  std::string reshaped(const std::string& value);

  std::string place() const { return place_of(step_.op, step_.scope); }

 private:
  std::string value_of(const Operand& operand, DType dtype, const std::string& name);

  const OnnxStep& step_;
  const std::vector<Names>& values_;  // of the previous steps
  OnnxGraph& graph_;
};

/// Writes one step; returns the names of its outputs.
using Rule = std::function<Names(OpWriter&)>;
using Rules = std::map<std::string_view, Rule>;

void add_elementwise_rules(Rules& rules);
void add_layer_rules(Rules& rules);
void add_shape_rules(Rules& rules);

/// Writes the whole program. Throws Error for an op without a rule.
void write_program(const OnnxProgram& program, OnnxGraph& graph);

}  // namespace rondo::io::onnx
