// OpWriter, and the loop over a program (see onnx_ops.h).

#include "extras/onnx/protobuf/onnx_ops.h"

#include <algorithm>

namespace rondo::io::onnx {

std::string OpWriter::value_of(const Operand& operand, DType dtype, const std::string& name) {
  if (operand.kind == Operand::Kind::constant)
    return graph_.constant(operand, dtype, step_.name + "." + name);
  const std::string value = operand.kind == Operand::Kind::input
                                ? operand.input
                                : values_[operand.step][static_cast<std::size_t>(operand.output)];
  return operand.dtype == dtype
             ? value
             : node("Cast", {value}, {{"to", std::int64_t{data_type_of(dtype, value)}}});
}

std::string OpWriter::in(std::size_t i) {
  return has(i) ? value_of(step_.arguments[i], dtype(), concat("argument", i)) : "";
}

std::string OpWriter::tensor(const std::string& name) {
  const auto found = step_.tensors.find(name);
  require(found != step_.tensors.end(), place(), " has no attribute ", name);
  return value_of(found->second, found->second.dtype, name);
}

std::int64_t OpWriter::fixed(const Size& size) const {
  require<ShapeError>(
      size.is_fixed(), place(),
      " needs a constant size, but the size depends on the batch; OnnxOptions::dynamic_batch "
      "= false fixes the batch");
  return size.fixed;
}

/// ONNX infers one size that is -1; with two such sizes, the shape is computed.
std::string OpWriter::reshaped(const std::string& value) {
  Integers sizes;
  for (const Size& size : out_sizes()) sizes.push_back(size.is_fixed() ? size.fixed : -1);
  const bool one_is_free = std::count(sizes.begin(), sizes.end(), -1) <= 1;
  return node("Reshape", {value, one_is_free ? list(sizes) : shape(out_sizes())});
}

namespace {

const Rules& rules() {
  static const Rules all = [] {
    Rules rules;
    add_elementwise_rules(rules);
    add_layer_rules(rules);
    add_shape_rules(rules);
    return rules;
  }();
  return all;
}

}  // namespace

void write_program(const OnnxProgram& program, OnnxGraph& graph) {
  std::vector<Names> values;
  for (const OnnxStep& step : program.steps) {
    if (step.op == "input") {
      values.push_back({step.name});
    } else if (step.op == "parameter") {
      values.push_back({graph.initializer(step.value, step.name)});
    } else {
      const auto rule = rules().find(step.op);
      require(rule != rules().end(), place_of(step.op, step.scope), " has no ONNX form in rondo");
      OpWriter writer(step, values, graph);
      values.push_back(rule->second(writer));
    }
  }
  for (const auto& [name, output] : program.outputs) {
    std::string& value = values[output.step][static_cast<std::size_t>(output.output)];
    // If no node produced it (an input or a parameter), or if it is an output already, it has a
    // name.
    const bool has_name = std::ranges::any_of(
        program.outputs, [&](const auto& other) { return other.first == value; });
    if (has_name || !graph.rename(value, name))
      graph.rename(graph.node("Identity", {value}, {}, "identity")[0], name);
    else
      value = name;
  }
}

}  // namespace rondo::io::onnx
