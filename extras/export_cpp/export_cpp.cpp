// export_cpp (see extras/export_cpp/export_cpp.h) in three passes: `Lowering` makes steps of the
// traced ops, `planned` gives each buffer a place in memory, and `code_of` writes the steps as
// calls.

#include "extras/export_cpp/export_cpp.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "extras/export_cpp/kernels.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "nn/graph.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

using Int = std::int64_t;
using Index = std::size_t;
using nn::GraphNode;

/// Where a value is when the program runs.
struct Place {
  enum class Kind { absent, input, weights, buffer };
  Kind kind = Kind::absent;
  Index index = 0;    // of the weights or of the buffer
  bool sole = false;  // one op reads it
};

/// A call of a kernel: kernel<sizes, functions>(operands, output, numbers).
struct Step {
  std::string kernel, sizes;
  std::vector<Place> operands = {};
  Index output = 0;  // a buffer
  std::string numbers = {};
  std::string op = {};                 // its function of two elements, a and b
  std::vector<std::string> then = {};  // statements about each element v of the result
  bool takes_then = true;
  bool in_place = false;  // it may overwrite an operand of the same size
  Dims result = {};
  std::string scope = {};
};

struct Program {
  std::vector<Step> steps;
  std::vector<Tensor> weights;
  std::vector<Int> buffers;  // sizes
  Place output;
};

std::string place_of(const GraphNode& node) {
  return concat("export_cpp: '", node.op, "' in ", node.scope.empty() ? "the model" : node.scope);
}

template <class... Parts>
std::string list(const Parts&... parts) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + concat(parts)), ...);
  return text;
}

/// The shortest text of C++ with this value: 0.5.
template <class T>
std::string digits_of(T value) {
  std::array<char, 32> text{};
  std::string digits(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

/// The value as a float of C++: 0.5f.
std::string number(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  return digits_of(static_cast<float>(value)) + "f";
}

Int product(const Dims& sizes, Int begin, Int end) {
  Int n = 1;
  for (Int d = begin; d < end; ++d) n *= sizes[d];
  return n;
}

/// Sizes, and for each array the distances of its elements, with as few dimensions as possible.
struct Layout {
  std::vector<Int> sizes;
  std::vector<std::vector<Int>> strides;

  Layout(const Dims& all, const std::vector<std::vector<Int>>& arrays) : strides(arrays.size()) {
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
  static std::string braces(const std::vector<Int>& values) {
    std::string text;
    for (const Int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    return "{" + text + "}";
  }
};

/// The strides of a row-major array of shape `from`, seen as `to`; 0 where it is repeated.
std::vector<Int> strides_in(const Dims& from, const Dims& to) {
  std::vector<Int> strides(static_cast<Index>(to.size()), 0);
  Int stride = 1;
  for (Int d = from.size() - 1; d >= 0; --d) {
    if (from[d] != 1) strides[static_cast<Index>(d + to.size() - from.size())] = stride;
    stride *= from[d];
  }
  return strides;
}

/// Makes the steps of a trace. Each op has a row in `rules`.
class Lowering {
 public:
  Lowering(const nn::Trace& trace, const Tensor& input) : trace_(trace), input_(input) {
    for (const GraphNode& node : trace.nodes) {
      uses_.emplace_back(node.shapes.size(), 0);
      for (const nn::GraphArgument& argument : node.arguments) count(argument);
    }
    count(trace.outputs[0].second);
  }

  Program operator()() {
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

 private:
  using Rule = std::function<void(Lowering&)>;
  static const std::map<std::string_view, Rule>& rules();

  void lower() {
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

  // The node that is being lowered.

  const nn::GraphArgument& argument(Index i) const { return node_->arguments[i]; }
  Dims shape(Index i = 0) const {
    const nn::GraphArgument& a = argument(i);
    return a.node < 0
               ? a.constant.shape()
               : trace_.nodes[static_cast<Index>(a.node)].shapes[static_cast<Index>(a.output)];
  }
  const Dims& result(Index i = 0) const { return node_->shapes[i]; }
  Place& out(Index i = 0) { return places_.back()[i]; }
  template <class T>
  const T& told(std::string_view name) const {
    const auto found = node_->attributes.find(name);
    require(found != node_->attributes.end(), place_of(*node_), " has no attribute ", name);
    return std::get<T>(found->second);
  }
  Int integer(std::string_view name) const { return told<Int>(name); }
  double real(std::string_view name) const { return told<double>(name); }
  const Dims& integers(std::string_view name) const { return told<Dims>(name); }

  void count(const nn::GraphArgument& a) {
    if (a.node >= 0) ++uses_[static_cast<Index>(a.node)][static_cast<Index>(a.output)];
  }

  /// The value of argument i if it does not depend on the input; otherwise undefined.
  Tensor known(Index i) const {
    if (i >= node_->arguments.size()) return {};
    return argument(i).node < 0 ? argument(i).constant
                                : known_[static_cast<Index>(argument(i).node)];
  }
  /// The same for a weight of a layer.
  Tensor weight(Index i) const {
    const Tensor value = known(i);
    require(value.defined(), place_of(*node_),
            ": forward computes its weight, which must be a parameter for a C++ form");
    return value;
  }
  Place weights(const Tensor& value) {
    program_.weights.push_back(row_major(value).to(f32));
    return {.kind = Place::Kind::weights, .index = program_.weights.size() - 1};
  }
  Place place(const nn::GraphArgument& a) {
    if (a.node < 0) return a.constant.defined() ? weights(a.constant) : Place{};
    const auto node = static_cast<Index>(a.node), output = static_cast<Index>(a.output);
    if (known_[node].defined()) return weights(known_[node]);
    Place found = places_[node][output];
    found.sole = found.sole && uses_[node][output] == 1;
    return found;
  }
  Place in(Index i = 0) { return place(argument(i)); }

  Place buffer(const Dims& sizes) {
    program_.buffers.push_back(numel_of(sizes));
    return {.kind = Place::Kind::buffer, .index = program_.buffers.size() - 1, .sole = true};
  }
  /// Adds a step, whose result is output i of the node.
  Step& add(const std::string& kernel, const std::string& sizes, std::vector<Place> operands,
            const Dims& result, Index i = 0) {
    out(i) = buffer(result);
    return program_.steps.emplace_back(Step{.kernel = kernel,
                                            .sizes = sizes,
                                            .operands = std::move(operands),
                                            .output = out(i).index,
                                            .result = result,
                                            .scope = node_->scope});
  }
  /// The step that made x, if x can become a part of it.
  Step* maker(const Place& x) {
    if (x.kind != Place::Kind::buffer || !x.sole) return nullptr;
    const auto made = std::find_if(program_.steps.rbegin(), program_.steps.rend(),
                                   [&](const Step& step) { return step.output == x.index; });
    return made->takes_then ? &*made : nullptr;
  }

  // Rules.

  void same() {
    if (known(0).defined())
      known_.back() = known(0).reshape(result());
    else
      out() = in();
  }

  /// An expression of each element v of argument i.
  void unary(const std::string& expression, Index i = 0) {
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

  /// An expression of elements $a and $b. A constant number becomes a part of it.
  void binary(std::string expression) {
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
    const Layout layout(result(), {strides_in(shape(0), result()), strides_in(shape(1), result())});
    Step& step = add("combine", "", {in(0), in(1)}, result());
    step.op = expression;
    step.in_place = true;
    step.numbers = list(Layout::braces(layout.sizes), Layout::braces(layout.strides[0]),
                        Layout::braces(layout.strides[1]));
  }

  /// a + alpha b.
  void add_scaled() {
    const double alpha = real("alpha");
    if (std::abs(alpha) == 1) return binary(alpha > 0 ? "$a + $b" : "$a - $b");
    binary(concat("$a + ", number(alpha), " * $b"));
  }

  void power() {
    if (!node_->attributes.contains("exponent")) return binary("std::pow($a, $b)");
    const double exponent = real("exponent");
    unary(exponent == 2 ? "v * v" : concat("std::pow(v, ", number(exponent), ")"));
  }

  void clamp() {
    const std::string low = number(real("low")), high = number(real("high"));
    std::string expression = "v";  // NaN stays
    if (!std::isinf(real("high"))) expression = concat("v > ", high, " ? ", high, " : v");
    if (!std::isinf(real("low"))) expression = concat("v < ", low, " ? ", low, " : ", expression);
    unary(expression);
  }

  void gelu() {
    unary(told<std::string>("approximation") == "none"
              ? "0.5f * v * (1.0f + std::erf(v * 0.707106781f))"
              : "0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)))");
  }

  Place bias(Index i, Int channels) {
    const Tensor value = known(i);
    return weights(value.defined() ? value : zeros({channels}));
  }

  void linear() {
    const Tensor w = weight(1);
    const Dims x = shape(0);
    add("linear", list(product(x, 0, x.size() - 1), w.size(1), w.size(0)),
        {in(), weights(w), bias(2, w.size(0))}, result());
  }

  void bmm() {
    const Dims a = shape(0), b = shape(1);
    add("bmm", list(a[0], a[1], a[2], b[2]), {in(0), in(1)}, result());
  }

  void conv2d() {
    const Tensor w = weight(1);
    const Dims x = shape(0), &stride = integers("stride"), &padding = integers("padding"),
               &dilation = integers("dilation");
    const Int groups = integer("groups"), c = w.size(1), k = w.size(0) / groups;
    const bool pads = padding[0] != 0 || padding[1] != 0;
    std::vector<Place> operands = {in(), weights(w), bias(2, w.size(0))};
    if (groups == 1 && w.size(2) == 1 && w.size(3) == 1 && stride[0] == 1 && stride[1] == 1 &&
        !pads) {
      add("pointwise", list(x[0], c, x[2] * x[3], k), operands, result());
      return;
    }
    const bool depthwise = c == 1 && k == 1;
    operands.push_back(
        pads ? buffer({depthwise ? 1 : c, x[2] + 2 * padding[0], x[3] + 2 * padding[1]}) : Place{});
    const std::string image = list(x[2], x[3]),
                      window = list(w.size(2), w.size(3), stride[0], stride[1], padding[0],
                                    padding[1], dilation[0], dilation[1]);
    if (depthwise)
      add("depthwise", list(x[0], groups, image, window), operands, result());
    else
      add("conv2d", list(x[0], groups, c, image, k, window), operands, result());
  }

  /// y = x scale + shift for each channel, in the weights of the layer before it if possible.
  void batch_norm() {
    const Int channels = result()[1];
    const auto wide = [&](Index i, double without) {
      const Tensor value = known(i);
      return value.defined() ? value.to(f64) : full({channels}, without, {.dtype = f64});
    };
    const Tensor factor = wide(1, 1) / sqrt(wide(4, 1) + real("eps"));
    const Tensor shift = wide(2, 0) - wide(3, 0) * factor;
    const Place x = in();
    Step* layer = maker(x);
    static const std::set<std::string_view> layers = {"linear", "conv2d", "pointwise", "depthwise"};
    // The layer's result may have another shape; its channels must be those of the batch norm.
    if (layer != nullptr && layers.contains(layer->kernel) && layer->then.empty() &&
        layer->result.size() >= 2 && layer->result[0] == result()[0] &&
        layer->result[1] == channels && (layer->kernel != "linear" || result().size() == 2)) {
      Tensor &w = program_.weights[layer->operands[1].index],
             &b = program_.weights[layer->operands[2].index];
      Dims column = {channels};
      while (column.size() < w.dim()) column.push_back(1);
      w = (w.to(f64) * factor.reshape(column)).to(f32);
      b = (b.to(f64) * factor + shift).to(f32);
      out() = x;
      return;
    }
    add("scale", "", {x, weights(factor), weights(shift)}, result()).numbers =
        list(result()[0], channels, product(result(), 2, result().size()));
  }

  void layer_norm() {
    const Dims x = shape(0);
    const Int n = product(x, x.size() - integer("dims"), x.size());
    const Tensor w = known(1), b = known(2);
    Step& step =
        add("layer_norm", "",
            {in(), weights(w.defined() ? w : ones({n})), weights(b.defined() ? b : zeros({n}))},
            result());
    step.numbers = list(numel_of(x) / n, n, digits_of(real("eps")));
  }

  void softmax(const char* log) {
    const Dims x = shape(0);
    const Int dim = integer("dim");
    Step& step = add("softmax", log, {in()}, result());
    step.takes_then = false;
    step.in_place = true;
    step.numbers = list(product(x, 0, dim), x[dim], product(x, dim + 1, x.size()));
  }

  void pool(const char* greatest) {
    const Dims x = shape(0), &kernel = integers("kernel"), &stride = integers("stride"),
               &padding = integers("padding");
    const bool counts = std::string_view(greatest) == "false" && integer("count_include_pad") == 1;
    Step& step = add("pool2d", list(greatest, counts ? "true" : "false"), {in()}, result());
    step.takes_then = false;
    step.numbers = list(x[0] * x[1], x[2], x[3], result()[2], result()[3], kernel[0], kernel[1],
                        stride[0], stride[1], padding[0], padding[1]);
  }

  void adaptive_avg_pool2d() {
    const Dims x = shape(0);
    Step& step = add("adaptive_avg_pool2d", "", {in()}, result());
    step.takes_then = false;
    step.numbers = list(x[0] * x[1], x[2], x[3], result()[2], result()[3]);
  }

  /// Result i: elements of x, which begin at `first` and have these strides.
  void arrange(const std::vector<Int>& strides, Int first = 0, Index i = 0) {
    const Layout layout(result(i), {strides});
    Step& step = add("arrange", "", {in()}, result(i), i);
    step.takes_then = false;
    step.numbers = list(first, Layout::braces(layout.sizes), Layout::braces(layout.strides[0]));
  }

  void expand() {
    if (shape(0) == result()) return same();
    arrange(strides_in(shape(0), result()));
  }

  void permute() {
    const std::vector<Int> from = strides_in(shape(0), shape(0));
    std::vector<Int> strides;
    for (const Int d : integers("order")) strides.push_back(from[static_cast<Index>(d)]);
    arrange(strides);
  }

  void flip() {
    std::vector<Int> strides = strides_in(shape(0), shape(0));
    Int first = 0;
    for (const Int d : integers("dims")) {
      Int& stride = strides[static_cast<Index>(d)];
      first += stride * (shape(0)[d] - 1);
      stride = -stride;
    }
    arrange(strides, first);
  }

  /// For slice, narrow and select, which removes the dimension.
  void slice() {
    std::vector<Int> strides = strides_in(shape(0), shape(0));
    const auto dim = static_cast<Index>(integer("dim"));
    const Int first = integer("start") * product(shape(0), integer("dim") + 1, shape(0).size());
    if (result().size() < shape(0).size())
      strides.erase(strides.begin() + integer("dim"));
    else
      strides[dim] *= integer("step");
    arrange(strides, first);
  }

  /// For split and unbind, which removes the dimension.
  void split() {
    std::vector<Int> strides = strides_in(shape(0), shape(0));
    const Int dim = integer("dim"), stride = product(shape(0), dim + 1, shape(0).size());
    const bool removes = result().size() < shape(0).size();
    if (removes) strides.erase(strides.begin() + dim);
    Int first = 0;
    for (Index i = 0; i < node_->shapes.size(); ++i) {
      if (uses_.at(places_.size() - 1)[i] > 0) arrange(strides, first, i);
      first += stride * (removes ? 1 : result(i)[dim]);
    }
  }

  void cat() {
    const Int dim = integer("dim"), rows = product(result(), 0, dim),
              width = product(result(), dim, result().size());
    const Place whole = buffer(result());
    Int first = 0;
    for (Index i = 0; i < node_->arguments.size(); ++i) {
      const Dims part = shape(i);
      if (numel_of(part) == 0) continue;
      const Int n = numel_of(part) / rows;
      program_.steps.push_back({.kernel = "put",
                                .sizes = "",
                                .operands = {in(i)},
                                .output = whole.index,
                                .numbers = list(rows, n, first, width),
                                .takes_then = false,
                                .scope = node_->scope});
      first += n;
    }
    out() = whole;
  }

  /// Folds adjacent dimensions by an expression of a and b.
  void fold(const char* expression, bool mean = false) {
    const Dims x = shape(0);
    Dims dims;
    if (node_->attributes.contains("dims"))
      dims = integers("dims");
    else
      for (Int d = 0; d < x.size(); ++d) dims.push_back(d);
    std::vector<Int> folded;  // those of size 1 need no step
    for (const Int d : dims)
      if (x[d] != 1) folded.push_back(d);
    std::sort(folded.begin(), folded.end());
    if (folded.empty()) return same();
    const Int begin = folded.front(), end = folded.back() + 1, n = product(x, begin, end);
    Int all = 1;
    for (const Int d : folded) all *= x[d];
    require(all == n, place_of(*node_),
            " reduces dimensions that are not adjacent, which has no C++ form in rondo");
    Step& step = add("fold", "", {in()}, result());
    step.op = expression;
    if (mean) step.then.push_back(concat("v / ", number(static_cast<double>(n))));
    step.numbers = list(product(x, 0, begin), n, product(x, end, x.size()));
  }

  void embedding() {
    const Tensor table = weight(0), index = told<Tensor>("index");
    if (index.storage() != input_.storage()) {  // constant indices
      known_.back() = index_select(table, 0, index.reshape({index.numel()})).reshape(result());
      return;
    }
    require(index.numel() == input_.numel() && index.is_contiguous(), place_of(*node_),
            " must get the input as it is, for a C++ form");
    Step& step =
        add("embedding", "", {Place{.kind = Place::Kind::input}, weights(table)}, result());
    step.takes_then = false;
    step.numbers = list(index.numel(), table.size(0), table.size(1));
  }

  void masked_fill() {
    const Tensor mask = told<Tensor>("mask");
    const Layout layout(result(),
                        {strides_in(shape(0), result()), strides_in(mask.shape(), result())});
    Step& step = add("combine", "", {in(), weights(mask.to(f32))}, result());
    step.op = concat("b != 0 ? ", number(real("value")), " : a");
    step.in_place = true;
    step.numbers = list(Layout::braces(layout.sizes), Layout::braces(layout.strides[0]),
                        Layout::braces(layout.strides[1]));
  }

  /// (N, K) as panels of 32 outputs, (K, 32) each. The last one, and the bias, end in zeros.
  static void in_panels(Tensor& w) {
    const Int n = w.size(0), k = w.size(1), panels = (n + 31) / 32;
    const Tensor all = rondo::cat({w, zeros({panels * 32 - n, k})}, 0);
    w = all.reshape({panels, 32, k}).permute({0, 2, 1}).contiguous();
  }

  const nn::Trace& trace_;
  const Tensor input_;
  const GraphNode* node_ = nullptr;
  std::vector<std::vector<Int>> uses_;      // of each output of each node
  std::vector<std::vector<Place>> places_;  // likewise
  Tensors known_;                           // values that do not depend on the input
  Program program_;
};

const std::map<std::string_view, Lowering::Rule>& Lowering::rules() {
  const auto unary = [](const char* expression) {
    return [=](Lowering& l) { l.unary(expression); };
  };
  const auto binary = [](const char* expression) {
    return [=](Lowering& l) { l.binary(expression); };
  };
  const auto fold = [](const char* expression, bool mean = false) {
    return [=](Lowering& l) { l.fold(expression, mean); };
  };
  static const char *greater = "a > b || a != a ? a : b", *less = "a < b || a != a ? a : b";
  static const std::map<std::string_view, Rule> all = {
      {"relu", unary("v < 0.0f ? 0.0f : v")},
      {"sigmoid", unary("1.0f / (1.0f + std::exp(-v))")},
      {"silu", unary("v / (1.0f + std::exp(-v))")},
      {"tanh", unary("std::tanh(v)")},
      {"exp", unary("std::exp(v)")},
      {"expm1", unary("std::expm1(v)")},
      {"log", unary("std::log(v)")},
      {"log1p", unary("std::log1p(v)")},
      {"sqrt", unary("std::sqrt(v)")},
      {"rsqrt", unary("1.0f / std::sqrt(v)")},
      {"reciprocal", unary("1.0f / v")},
      {"neg", unary("-v")},
      {"abs", unary("std::fabs(v)")},
      {"square", unary("v * v")},
      {"erf", unary("std::erf(v)")},
      {"sin", unary("std::sin(v)")},
      {"cos", unary("std::cos(v)")},
      {"softplus", unary("std::max(v, 0.0f) + std::log1p(std::exp(-std::fabs(v)))")},
      {"logsigmoid", unary("std::min(v, 0.0f) - std::log1p(std::exp(-std::fabs(v)))")},
      {"leaky_relu",
       [](Lowering& l) { l.unary(concat("v < 0.0f ? ", number(l.real("slope")), " * v : v")); }},
      {"gelu", &Lowering::gelu},
      {"clamp", &Lowering::clamp},
      {"hardtanh", &Lowering::clamp},
      {"pow", &Lowering::power},
      {"add", &Lowering::add_scaled},
      {"sub", &Lowering::add_scaled},
      {"mul", binary("$a * $b")},
      {"div", binary("$a / $b")},
      {"maximum", binary("$a > $b || $a != $a ? $a : $b")},
      {"minimum", binary("$a < $b || $a != $a ? $a : $b")},
      {"masked_fill", &Lowering::masked_fill},
      {"sum", fold("a + b")},
      {"mean", fold("a + b", true)},
      {"amax", fold(greater)},
      {"amin", fold(less)},
      {"linear", &Lowering::linear},
      {"bmm", &Lowering::bmm},
      {"conv2d", &Lowering::conv2d},
      {"batch_norm_inference", &Lowering::batch_norm},
      {"layer_norm", &Lowering::layer_norm},
      {"softmax", [](Lowering& l) { l.softmax("false"); }},
      {"log_softmax", [](Lowering& l) { l.softmax("true"); }},
      {"max_pool2d", [](Lowering& l) { l.pool("true"); }},
      {"avg_pool2d", [](Lowering& l) { l.pool("false"); }},
      {"adaptive_avg_pool2d", &Lowering::adaptive_avg_pool2d},
      {"embedding", &Lowering::embedding},
      {"reshape", &Lowering::same},
      {"view", &Lowering::same},
      {"squeeze", &Lowering::same},
      {"unsqueeze", &Lowering::same},
      {"contiguous", &Lowering::same},
      {"clone", &Lowering::same},
      {"to(dtype)", &Lowering::same},
      {"to(device)", &Lowering::same},
      {"expand", &Lowering::expand},
      {"permute", &Lowering::permute},
      {"flip", &Lowering::flip},
      {"slice", &Lowering::slice},
      {"narrow", &Lowering::slice},
      {"select", &Lowering::slice},
      {"split", &Lowering::split},
      {"unbind", &Lowering::split},
      {"cat", &Lowering::cat}};
  return all;
}

/// The offsets of the buffers in one piece of memory, and its size. Two buffers that are needed at
/// the same time do not overlap, except that a step in place overwrites its operand.
struct Plan {
  std::vector<Int> offsets;
  Int size = 0;
};

Plan planned(const Program& program) {
  const Index count = program.buffers.size(), end = program.steps.size();
  std::vector<Index> first(count, end), last(count, 0);
  for (Index s = 0; s < end; ++s) {
    const auto uses = [&](Index buffer) {
      first[buffer] = std::min(first[buffer], s);
      last[buffer] = s;
    };
    for (const Place& x : program.steps[s].operands)
      if (x.kind == Place::Kind::buffer) uses(x.index);
    uses(program.steps[s].output);
  }
  const Index y = program.output.index;  // is in the caller's memory
  Plan plan{.offsets = std::vector<Int>(count, 0)};
  std::vector<Index> placed;
  for (Index s = 0; s < end; ++s) {
    const Step& step = program.steps[s];
    for (Index b = 0; b < count; ++b) {
      if (first[b] != s || b == y) continue;
      const auto overwrites = [&](const Place& x) {
        return b == step.output && step.in_place && x.kind == Place::Kind::buffer && x.index != y &&
               last[x.index] == s && program.buffers[x.index] == program.buffers[b];
      };
      const auto operand = std::ranges::find_if(step.operands, overwrites);
      Int at = 0;
      if (operand != step.operands.end()) {
        at = plan.offsets[operand->index];
      } else {  // the first gap
        const auto size_of = [&](Index buffer) { return (program.buffers[buffer] + 15) / 16 * 16; };
        std::ranges::sort(placed, {}, [&](Index other) { return plan.offsets[other]; });
        for (const Index other : placed)
          if (last[other] >= s && plan.offsets[other] < at + size_of(b))
            at = std::max(at, plan.offsets[other] + size_of(other));
        plan.size = std::max(plan.size, at + size_of(b));
      }
      plan.offsets[b] = at;
      placed.push_back(b);
    }
  }
  return plan;
}

/// The weights as they are in the file: each begins at a multiple of 16 floats. Equal ones are
/// stored once.
struct Stored {
  std::vector<Int> offsets;
  std::vector<float> elements;
};

Stored stored(const Tensors& weights) {
  Stored all;
  std::map<std::string, Int> known;
  for (const Tensor& w : weights) {
    const Tensor x = row_major(w);
    Sha256 hash;
    hash.update(x.data_ptr(), static_cast<Index>(x.nbytes()));
    const auto [at, is_new] = known.emplace(hash.hex(), static_cast<Int>(all.elements.size()));
    all.offsets.push_back(at->second);
    if (!is_new) continue;
    const auto* elements = static_cast<const float*>(x.data_ptr());
    all.elements.insert(all.elements.end(), elements, elements + x.numel());
    all.elements.resize((all.elements.size() + 15) / 16 * 16);
  }
  return all;
}

/// As `load` in exported code computes it.
std::uint64_t hash_of(const std::vector<float>& elements) {
  std::uint64_t hash = 14695981039346656037U;
  for (const float element : elements)
    hash = (hash ^ std::bit_cast<std::uint32_t>(element)) * 1099511628211U;
  return hash;
}

/// The functions of elements that steps use; equal ones are written once.
class Functions {
 public:
  std::string name_of(const std::string& parameters, const std::vector<std::string>& expressions) {
    std::string body;
    for (Index i = 0; i + 1 < expressions.size(); ++i) body += "  v = " + expressions[i] + ";\n";
    body += "  return " + (expressions.empty() ? "v" : expressions.back()) + ";\n";
    const auto [found, is_new] = names_.emplace(parameters + body, concat("f", names_.size()));
    if (is_new)
      text += concat("inline float ", found->second, "(", parameters, ") {\n", body, "}\n");
    return found->second;
  }
  std::string text;

 private:
  std::map<std::string, std::string> names_;
};

/// A name of C++ made of a file's stem.
std::string name_of(const std::filesystem::path& path) {
  std::string name = path.stem().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return std::isdigit(static_cast<unsigned char>(name[0])) != 0 ? "_" + name : name;
}

/// Replaces each "@KEY@" of the text.
std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [key, value] : values)
    for (Index at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size())
      text.replace(at, key.size(), value);
  return text;
}

std::string code_of(const Program& program, const Stored& weights, const Tensor& input,
                    const Dims& output, const std::filesystem::path& path) {
  const Plan plan = planned(program);
  Functions functions;
  std::set<std::string> kernels;
  std::string calls;
  for (const Step& step : program.steps) {
    kernels.insert(step.kernel);
    const auto text_of = [&](const Place& x) -> std::string {
      if (x.kind == Place::Kind::absent) return "nullptr";
      if (x.kind == Place::Kind::input) return "x";
      if (x.kind == Place::Kind::weights) return concat("w + ", weights.offsets[x.index]);
      return x.index == program.output.index ? "y" : concat("a + ", plan.offsets[x.index]);
    };
    std::string arguments, templates = step.sizes;
    const auto append = [](std::string& all, const std::string& part) {
      if (!part.empty()) all += (all.empty() ? "" : ", ") + part;
    };
    for (const Place& x : step.operands) append(arguments, text_of(x));
    append(arguments, text_of({.kind = Place::Kind::buffer, .index = step.output}));
    append(arguments, step.numbers);
    if (!step.op.empty()) append(templates, functions.name_of("float a, float b", {step.op}));
    if (step.takes_then) append(templates, functions.name_of("float v", step.then));
    calls += concat("    ", step.kernel, templates.empty() ? "" : "<" + templates + ">", "(",
                    arguments, ");");
    calls += step.scope.empty() ? "\n" : concat("  // ", step.scope, "\n");
  }
  std::string texts;
  for (auto kernel = detail::kernel_texts.rbegin(); kernel != detail::kernel_texts.rend();
       ++kernel) {
    if (!kernels.contains(std::string(kernel->name))) continue;
    std::istringstream needs{std::string(kernel->needs)};
    for (std::string name; needs >> name;) kernels.insert(name);
    texts = std::string(kernel->text) + texts;
  }
  const auto bytes = weights.elements.size() * sizeof(float);
  std::array<char, 24> hash{};
  std::snprintf(hash.data(), hash.size(), "0x%016llxU",
                static_cast<unsigned long long>(hash_of(weights.elements)));
  return filled(std::string(detail::program_text),
                {{"@NAME@", name_of(path)},
                 {"@FILE@", path.filename().string()},
                 {"@WEIGHTS@", path.stem().string() + ".weights"},
                 {"@INPUT@", input.dtype() == i64 ? "std::int64_t" : "float"},
                 {"@INPUT_SHAPE@", concat(input.shape())},
                 {"@OUTPUT_SHAPE@", concat(output)},
                 {"@INPUT_SIZE@", std::to_string(input.numel())},
                 {"@OUTPUT_SIZE@", std::to_string(numel_of(output))},
                 {"@MEMORY@", std::to_string(plan.size)},
                 {"@BYTES@", std::to_string(bytes)},
                 {"@HASH@", hash.data()},
                 {"@FUNCTIONS@", functions.text},
                 {"@KERNELS@", texts},
                 {"@CALLS@", calls}});
}

/// The same shape and dtype with other elements.
Tensor others(const Tensor& x) {
  if (x.dtype() == f32) return x * -0.5 + 1.0;
  const Tensor turned = max(x) - x;  // stays inside any table that the example fits
  require(any(ne(turned, x)).item<bool>(),
          "export_cpp: the example has only zeros; with other elements, constants can be told from "
          "values "
          "that depend on the input");
  return turned;
}

/// Throws if a constant of the first trace is another one in the second.
void require_constants(const nn::Trace& first, const nn::Trace& second, const Tensor& a,
                       const Tensor& b) {
  require(first.nodes.size() == second.nodes.size(), "export_cpp: forward records ",
          first.nodes.size(), " ops for one input and ", second.nodes.size(),
          " for another; a file can hold only one graph");
  const auto equal = [&](const Tensor& x, const Tensor& y) {
    if (x.defined() != y.defined()) return false;
    if (!x.defined() || (x.storage() == a.storage() && y.storage() == b.storage())) return true;
    if (x.dtype() != y.dtype() || x.shape() != y.shape()) return false;
    const Tensor p = row_major(x), q = row_major(y);
    return std::memcmp(p.data_ptr(), q.data_ptr(), static_cast<Index>(p.nbytes())) == 0;
  };
  for (Index i = 0; i < first.nodes.size(); ++i) {
    const GraphNode &one = first.nodes[i], &two = second.nodes[i];
    bool same = one.op == two.op && one.arguments.size() == two.arguments.size() &&
                one.shapes == two.shapes;
    for (Index k = 0; same && k < one.arguments.size(); ++k)
      same = one.arguments[k].node == two.arguments[k].node &&
             one.arguments[k].output == two.arguments[k].output &&
             equal(one.arguments[k].constant, two.arguments[k].constant);
    for (const auto& [name, value] : one.attributes) {
      const auto other = two.attributes.find(name);
      same = same && other != two.attributes.end() && value.index() == other->second.index();
      if (!same) break;
      same = std::visit(
          [&]<class T>(const T& v) {
            if constexpr (std::is_same_v<T, Tensor>)
              return equal(v, std::get<T>(other->second));
            else
              return v == std::get<T>(other->second);
          },
          value);
    }
    require(
        same, place_of(one),
        " has a different argument for another input, which is not the result of a recorded op; "
        "a file would store it as a constant");
  }
}

}  // namespace

void export_cpp(const nn::ModelCall& call, const std::filesystem::path& path) {
  require(call.inputs.size() == 1, "export_cpp: forward has ", call.inputs.size(),
          " tensors as arguments; a C++ file has one input");
  const Tensor input = call.inputs[0].tensor.detach().clone().contiguous();
  require<DTypeError>(input.dtype() == f32 || input.dtype() == i64, "export_cpp: an example of ",
                      input.dtype(), "; the input may be f32 or i64");
  require<ShapeError>(input.numel() > 0, "export_cpp: the example ", input.shape(),
                      " has no elements");
  std::filesystem::path weights_path = path;
  weights_path.replace_extension(".weights");
  require<IoError>(path != weights_path, path.string(),
                   ": the file of weights would have the same name; use the extension .cpp");
  AtomicFile code(path.string()), weights(weights_path.string());  // fail before the work

  const NoGradGuard no_grad;  // traces record nevertheless
  const Tensor other = others(input);
  const nn::Trace trace = nn::trace(call, {input});
  require(trace.outputs.size() == 1, "export_cpp: forward returns ", trace.outputs.size(),
          " tensors; a C++ file has one output");
  const nn::GraphArgument& output = trace.outputs[0].second;
  require(output.node >= 0,
          "export_cpp: the result does not depend on anything that gradients flow through");
  require_constants(trace, nn::trace(call, {other}), input, other);

  const Program program = Lowering(trace, input)();
  const Stored elements = stored(program.weights);
  const Dims shape =
      trace.nodes[static_cast<Index>(output.node)].shapes[static_cast<Index>(output.output)];
  const std::string text = code_of(program, elements, input, shape, path);
  weights.write(elements.elements.data(), elements.elements.size() * sizeof(float));
  code.write(text.data(), text.size());
  weights.commit();
  code.commit();
}

}  // namespace rondo::io
