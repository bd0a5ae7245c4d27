#pragma once
// Lowering: turns a trace into a program. Each op has a rule, a function that adds steps for one
// node: rules_elementwise.cpp, rules_layer.cpp and rules_shape.cpp. Private to export_cpp.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "extras/export_cpp/program.h"
#include "nn/graph.h"
#include "tensor/error.h"

namespace rondo::io::detail {

/// The product of sizes[begin] … sizes[end - 1].
inline Int product(const Dims& sizes, Int begin, Int end) {
  Int n = 1;
  for (Int d = begin; d < end; ++d) n *= sizes[d];
  return n;
}

/// Sizes, and for each array the distances of its elements, with as few dimensions as possible.
struct StridedLayout {
  std::vector<Int> sizes;
  std::vector<std::vector<Int>> strides;

  StridedLayout(const Dims& all, const std::vector<std::vector<Int>>& arrays);
  /// "{2, 3}".
  static std::string braces(const std::vector<Int>& values);
};

/// The strides of a row-major array of shape `from`, broadcast to `to`; 0 where it is repeated.
std::vector<Int> strides_in(const Dims& from, const Dims& to);

/// The state that rules see: the node that is being lowered, and the program so far.
class Lowering {
 public:
  Lowering(const nn::Trace& trace, const Tensor& input);
  Program operator()();

  const GraphNode& node() const { return *node_; }
  /// The model's input.
  const Tensor& input() const { return input_; }
  Program& program() { return program_; }
  /// The shape of argument i.
  Dims shape(Index i = 0) const;
  /// The shape of result i.
  const Dims& result(Index i = 0) const { return node_->shapes[i]; }
  /// Whether an op reads result i.
  bool is_used(Index i) const { return uses_[places_.size() - 1][i] > 0; }
  template <class T>
  const T& attribute(std::string_view name) const {
    const auto found = node_->attributes.find(name);
    require(found != node_->attributes.end(), place_of(*node_), " has no attribute ", name);
    return std::get<T>(found->second);
  }
  Int integer(std::string_view name) const { return attribute<Int>(name); }
  double real(std::string_view name) const { return attribute<double>(name); }
  const Dims& integers(std::string_view name) const { return attribute<Dims>(name); }

  /// The value of argument i if it is known now: a parameter or a constant. Undefined if the
  /// argument is absent, or if forward computes it.
  Tensor known(Index i) const;
  /// Whether argument i is there, but forward computes it.
  bool is_computed(Index i) const;
  /// The same for a weight of a layer. Throws Error if it is undefined.
  Tensor weight(Index i) const;
  /// Sets the node's value, which does not depend on the input.
  void set_known(const Tensor& value) { known_.back() = value; }

  /// Where argument i is.
  Place in(Index i = 0) { return place(node_->arguments[i]); }
  /// Where result i is. The rule sets it, by `add` or by an assignment.
  Place& out(Index i = 0) { return places_.back()[i]; }
  /// Stores a weight.
  Place weights(const Tensor& value);
  Place buffer(const Dims& sizes);
  /// Adds a step, which makes result i of the node.
  Step& add(const std::string& kernel, const std::string& sizes, std::vector<Place> operands,
            const Dims& result, Index i = 0);
  /// The step that made x, if x can become a part of it.
  Step* maker(const Place& x);

  // Rules that other rules use.

  /// The result is the argument, perhaps with another shape.
  void same();
  /// An expression of each element v of argument i.
  void unary(const std::string& expression, Index i = 0);
  /// An expression of elements $a and $b. A constant number becomes a part of it.
  void binary(std::string expression);
  /// An expression of elements a of x and b of y, which are broadcast to the result.
  void combine(const std::string& expression, const Place& x, const Dims& x_shape, const Place& y,
               const Dims& y_shape);
  /// Result i: elements of x, which begin at `first` and have these strides.
  void arrange(const std::vector<Int>& strides, Int first = 0, Index i = 0);

 private:
  void lower();
  void count(const nn::GraphArgument& a);
  Place place(const nn::GraphArgument& a);

  const nn::Trace& trace_;
  const Tensor input_;
  const GraphNode* node_ = nullptr;
  std::vector<std::vector<Int>> uses_;      // of each output of each node
  std::vector<std::vector<Place>> places_;  // likewise
  Tensors known_;                           // values that do not depend on the input
  Program program_;
};

using Rules = std::map<std::string_view, std::function<void(Lowering&)>>;
void add_elementwise_rules(Rules& rules);
void add_layer_rules(Rules& rules);
void add_shape_rules(Rules& rules);

/// The program of a trace that was recorded with this input. Throws DTypeError, and Error naming an
/// op that has no rule.
Program lowered(const nn::Trace& trace, const Tensor& input);

}  // namespace rondo::io::detail
