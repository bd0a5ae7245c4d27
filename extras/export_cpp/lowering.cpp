#include "extras/export_cpp/lowering.h"

#include <algorithm>

#include "autograd/ops/shape.h"
#include "io/hash.h"
#include "tensor/creation.h"

namespace rondo::io::detail {
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

/// (N, K) as panels of 32 outputs, (K, 32) each. The last one, and the bias, end in zeros.
void in_panels(Tensor& w) {
  const Int n = w.size(0), k = w.size(1), panels = (n + 31) / 32;
  const Tensor all = rondo::cat({w, zeros({panels * 32 - n, k})}, 0);
  w = all.reshape({panels, 32, k}).permute({0, 2, 1}).contiguous();
}

}  // namespace

StridedLayout::StridedLayout(const Dims& all, const std::vector<std::vector<Int>>& arrays)
    : strides(arrays.size()) {
  for (Index d = 0; d < static_cast<Index>(all.size()); ++d) {
    const Int size = all[static_cast<Int>(d)];
    if (size == 1) continue;
    bool joins = !sizes.empty();
    for (Index i = 0; i < arrays.size(); ++i)
      joins = joins && strides[i].back() == arrays[i][d] * size;
    if (!joins) sizes.push_back(1);
    sizes.back() *= size;
    for (Index i = 0; i < arrays.size(); ++i) {
      if (!joins) strides[i].push_back(0);
      strides[i].back() = arrays[i][d];
    }
  }
  if (!sizes.empty()) return;
  sizes = {1};
  for (std::vector<Int>& s : strides) s = {1};
}

std::string StridedLayout::braces(const std::vector<Int>& values) {
  std::string text;
  for (const Int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "{" + text + "}";
}

std::vector<Int> strides_in(const Dims& from, const Dims& to) {
  std::vector<Int> strides(static_cast<Index>(to.size()), 0);
  Int stride = 1;
  for (Int d = from.size() - 1; d >= 0; --d) {
    if (from[d] != 1) strides[static_cast<Index>(d + to.size() - from.size())] = stride;
    stride *= from[d];
  }
  return strides;
}

Lowering::Lowering(const nn::Trace& trace, const Tensor& input) : trace_(trace), input_(input) {
  for (const GraphNode& node : trace.nodes) {
    uses_.emplace_back(node.shapes.size(), 0);
    for (const nn::GraphArgument& argument : node.arguments) count(argument);
  }
  count(trace.outputs[0].second);
}

Program Lowering::operator()() {
  for (Index i = 0; i < trace_.nodes.size(); ++i) {
    node_ = &trace_.nodes[i];
    places_.emplace_back(node_->shapes.size());
    known_.emplace_back();
    lower();
  }
  const nn::GraphArgument& output = trace_.outputs[0].second;
  const GraphNode& last = trace_.nodes[static_cast<Index>(output.node)];
  program_.output = place(output);
  if (program_.output.kind != Place::Kind::buffer) {  // the input itself, or a parameter
    Step& copy =
        add("map", std::to_string(numel_of(last.shapes[0])), {program_.output}, last.shapes[0]);
    program_.output = {.kind = Place::Kind::buffer, .index = copy.output};
  }
  for (const Step& step : program_.steps)
    if (step.kernel == "linear") in_panels(program_.weights[step.operands[1].index]);
  return std::move(program_);
}

void Lowering::lower() {
  if (node_->op == "input") {
    out() = {.kind = Place::Kind::input, .sole = false};
    return;
  }
  for (const DType dtype : node_->dtypes)
    require<DTypeError>(dtype == f32, place_of(*node_), " is of ", dtype,
                        "; only f32 has a C++ form");
  if (node_->op == "parameter") {
    known_.back() = node_->value;
    return;
  }
  const auto rule = rules().find(node_->op);
  require(rule != rules().end(), place_of(*node_), " has no C++ form in rondo");
  rule->second(*this);
}

Dims Lowering::shape(Index i) const {
  const nn::GraphArgument& a = node_->arguments[i];
  return a.node < 0 ? a.constant.shape()
                    : trace_.nodes[static_cast<Index>(a.node)].shapes[static_cast<Index>(a.output)];
}

void Lowering::count(const nn::GraphArgument& a) {
  if (a.node >= 0) ++uses_[static_cast<Index>(a.node)][static_cast<Index>(a.output)];
}

Tensor Lowering::known(Index i) const {
  if (i >= node_->arguments.size()) return {};
  return node_->arguments[i].node < 0 ? node_->arguments[i].constant
                                      : known_[static_cast<Index>(node_->arguments[i].node)];
}

bool Lowering::is_computed(Index i) const {
  return i < node_->arguments.size() && node_->arguments[i].node >= 0 && !known(i).defined();
}

Tensor Lowering::weight(Index i) const {
  const Tensor value = known(i);
  require(value.defined(), place_of(*node_),
          ": forward computes its weight, which must be a parameter for a C++ form");
  return value;
}

Place Lowering::weights(const Tensor& value) {
  require(value.storage() != input_.storage(), place_of(*node_),
          " reads the input through a view that the tape does not know (detach, or a view under "
          "NoGradGuard); a file would store it as a constant");
  program_.weights.push_back(row_major(value).to(f32));
  return {.kind = Place::Kind::weights, .index = program_.weights.size() - 1};
}

Place Lowering::place(const nn::GraphArgument& a) {
  if (a.node < 0) return a.constant.defined() ? weights(a.constant) : Place{};
  const auto node = static_cast<Index>(a.node), output = static_cast<Index>(a.output);
  if (known_[node].defined()) return weights(known_[node]);
  Place found = places_[node][output];
  found.sole = found.sole && uses_[node][output] == 1;
  return found;
}

Place Lowering::buffer(const Dims& sizes) {
  program_.buffers.push_back(numel_of(sizes));
  return {.kind = Place::Kind::buffer, .index = program_.buffers.size() - 1, .sole = true};
}

Step& Lowering::add(const std::string& kernel, const std::string& sizes,
                    std::vector<Place> operands, const Dims& result, Index i) {
  out(i) = buffer(result);
  return program_.steps.emplace_back(Step{.kernel = kernel,
                                          .sizes = sizes,
                                          .operands = std::move(operands),
                                          .output = out(i).index,
                                          .result = result,
                                          .scope = node_->scope});
}

Step* Lowering::maker(const Place& x) {
  if (x.kind != Place::Kind::buffer || !x.sole) return nullptr;
  const auto made = std::find_if(program_.steps.rbegin(), program_.steps.rend(),
                                 [&](const Step& step) { return step.output == x.index; });
  return made->takes_then ? &*made : nullptr;
}

void Lowering::same() {
  if (known(0).defined())
    known_.back() = known(0).reshape(result());
  else
    out() = in();
}

void Lowering::unary(const std::string& expression, Index i) {
  const Place x = in(i);
  Step* step = maker(x);
  if (step == nullptr) {
    step = &add("map", std::to_string(numel_of(result())), {x}, result());
    step->in_place = true;
  } else {
    out() = x;
  }
  step->then.push_back(expression);
}

void Lowering::binary(std::string expression) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (Index at; (at = expression.find(from)) != std::string::npos;)
      expression.replace(at, from.size(), to);
  };
  for (const Index i : {Index{1}, Index{0}}) {
    const Tensor value = known(i);
    if (!value.defined() || value.numel() != 1 || shape(1 - i) != result()) continue;
    replace(i == 0 ? "$a" : "$b", number(value.to(f64).item<double>()));
    replace(i == 0 ? "$b" : "$a", "v");
    return unary(expression, 1 - i);
  }
  replace("$a", "a");
  replace("$b", "b");
  combine(expression, in(0), shape(0), in(1), shape(1));
}

void Lowering::combine(const std::string& expression, const Place& x, const Dims& x_shape,
                       const Place& y, const Dims& y_shape) {
  const StridedLayout layout(result(),
                             {strides_in(x_shape, result()), strides_in(y_shape, result())});
  Step& step = add("combine", "", {x, y}, result());
  step.op = expression;
  step.in_place = true;
  step.numbers = list(StridedLayout::braces(layout.sizes), StridedLayout::braces(layout.strides[0]),
                      StridedLayout::braces(layout.strides[1]));
}

void Lowering::arrange(const std::vector<Int>& strides, Int first, Index i) {
  const StridedLayout layout(result(i), {strides});
  Step& step = add("arrange", "", {in()}, result(i), i);
  step.takes_then = false;
  step.numbers =
      list(first, StridedLayout::braces(layout.sizes), StridedLayout::braces(layout.strides[0]));
}

Program lowered(const nn::Trace& trace, const Tensor& input) { return Lowering(trace, input)(); }

}  // namespace rondo::io::detail
