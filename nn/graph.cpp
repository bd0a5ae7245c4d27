#include "nn/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <new>
#include <set>

#include "autograd/accumulate_grad.h"
#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "nn/eval_mode.h"
#include "nn/walk.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

/// All nodes that `ends` depend on, in the order in which they were recorded, but leaves first.
std::vector<Node*> nodes_behind(const std::vector<Edge>& ends) {
  std::vector<Node*> todo, nodes;
  std::set<Node*> seen;
  for (const Edge& end : ends)
    if (end.node && seen.insert(end.node.get()).second) todo.push_back(end.node.get());
  while (!todo.empty()) {
    Node* node = todo.back();
    todo.pop_back();
    nodes.push_back(node);
    for (const Edge& edge : node->edges)
      if (edge.node && seen.insert(edge.node.get()).second) todo.push_back(edge.node.get());
  }
  const auto order = [](const Node* node) {
    return std::pair(dynamic_cast<const AccumulateGrad*>(node) == nullptr, node->sequence);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](const Node* a, const Node* b) { return order(a) < order(b); });
  return nodes;
}

/// "name", then "name_1", "name_2" …
std::string unique(std::map<std::string, int>& used, const std::string& name) {
  const int before = used[name]++;
  return before == 0 ? name : concat(name, "_", before);
}

/// While this object lives, all parameters of a model require gradients, also frozen ones.
class WithGradients {
 public:
  explicit WithGradients(Module& model) {
    for (const Tensor& p : model.parameters())
      if (is_floating(p.dtype()) && !p.requires_grad()) frozen_.push_back(p.requires_grad_());
  }
  ~WithGradients() {
    for (const Tensor& p : frozen_) p.requires_grad_(false);
  }
  WithGradients(const WithGradients&) = delete;
  WithGradients& operator=(const WithGradients&) = delete;

 private:
  Tensors frozen_;
};

/// Walks a tape from its ends to its beginning and describes its nodes.
class TapeReader {
 public:
  TapeReader(Module& model, const std::vector<NamedTensor>& inputs) {
    for (const auto& [name, x] : inputs) {
      inputs_.insert(&x.impl());
      leaves_.emplace(&x.impl(), name);
      used_[name] = 1;  // inputs keep their names
    }
    for (const auto& [name, p] : model.named_parameters()) leaves_.emplace(&p.impl(), name);
  }

  std::vector<GraphNode> read(const std::vector<Edge>& ends) {
    std::vector<GraphNode> graph;
    for (Node* node : nodes_behind(ends)) {
      GraphNode entry = describe(*node);
      for (const Edge& edge : node->edges)
        if (edge.node) entry.inputs.push_back(name_of(graph, edge));
      positions_.emplace(node, graph.size());
      graph.push_back(std::move(entry));
    }
    return graph;
  }

  /// Adds the information that `trace` has beyond graph_of.
  void complete(std::vector<GraphNode>& graph) {
    for (const auto& [node, at] : positions_) {
      GraphNode& entry = graph[at];
      entry.scope = node->scope;
      if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
        entry.dtypes = {leaf->leaf.dtype()};
        entry.value = leaf->leaf.detach();
        continue;
      }
      for (const OutputMeta& output : node->outputs) entry.dtypes.push_back(output.dtype);
      entry.attributes = attributes_of(*node);
      for (std::size_t i = 0; i < node->edges.size(); ++i)
        entry.arguments.push_back(argument(node->edges[i], constant_input(*node, i)));
    }
  }

  GraphArgument argument(const Edge& edge, const Tensor& constant) const {
    if (!edge.node) return {.constant = constant};
    return {.node = static_cast<std::int64_t>(position(edge)), .output = edge.output};
  }

 private:
  std::size_t position(const Edge& edge) const { return positions_.at(edge.node.get()); }

  std::string name_of(const std::vector<GraphNode>& graph, const Edge& edge) const {
    const std::string& name = graph[position(edge)].name;
    return edge.output == 0 ? name : concat(name, ":", edge.output);
  }

  GraphNode describe(const Node& node) {
    GraphNode entry{.op = node.name()};
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(&node)) {
      const auto known = leaves_.find(&leaf->leaf.impl());
      const bool is_input = inputs_.contains(&leaf->leaf.impl());
      entry.op = is_input ? "input" : "parameter";
      entry.name = is_input ? known->second
                            : unique(used_, known == leaves_.end() ? "constant" : known->second);
      entry.shapes = {leaf->leaf.shape()};
    } else {
      entry.name = unique(used_, node.scope.empty() ? entry.op : node.scope + "." + entry.op);
      for (const OutputMeta& output : node.outputs) entry.shapes.push_back(output.shape);
    }
    return entry;
  }

  std::set<const TensorImpl*> inputs_;
  std::map<const TensorImpl*, std::string> leaves_;
  std::map<Node*, std::size_t> positions_;
  std::map<std::string, int> used_;
};

/// The input as a separate leaf.
Tensor as_leaf(const Tensor& input) {
  Tensor x = input.detach();
  if (is_floating(x.dtype())) x.requires_grad_();
  return x;
}

}  // namespace

std::vector<GraphNode> graph_of(Module& model, const Tensor& input) {
  const EvalMode eval(model);
  const GradModeGuard recording(true);
  const AnomalyMode scopes;  // nodes remember the module that created them
  const Tensor x = as_leaf(input);
  return TapeReader(model, {{"input", x}}).read({gradient_edge(model(x))});
}

Tensor other_elements(const Tensor& x, int kind, const char* function) {
  if (is_floating(x.dtype())) {
    if (kind >= 2) return full_like(x, kind == 2 ? 0 : std::numeric_limits<double>::quiet_NaN());
    Generator generator(1);  // kind 1 is kind 0 times -1000; neighbours differ in sign
    const Tensor sign = (arange(x.numel()) % 2).to(f64) * 2.0 - 1.0;
    return ((rand({x.numel()}, {.dtype = f64}, generator) * 10.0) * sign * (kind == 0 ? -1 : 1000))
        .reshape(x.shape())
        .to(x.dtype())
        .to(x.device());
  }
  if (x.dtype() == boolean) return ~x;
  const Tensor turned = max(x) - x;
  require(
      any(ne(turned, x)).item<bool>(), function,
      ": the example has only zeros; with other elements, constants can be told from values that "
      "depend on the input");
  return turned;
}

Trace trace(const ModelCall& call, const Tensors& inputs) {
  Module& model = call.model;
  const EvalMode eval(model);
  const GradModeGuard recording(true);
  const AnomalyMode scopes;
  const TraceMode tracing;
  const WithGradients all(model);
  std::vector<NamedTensor> named = call.inputs;
  Tensors leaves;
  for (std::size_t i = 0; i < named.size(); ++i)
    leaves.push_back(named[i].tensor = as_leaf(inputs.at(i)));
  const auto versions = [&] {
    std::vector<std::uint64_t> all;
    for (const Tensor& x : leaves) all.push_back(x.version());
    return all;
  };
  const auto before = versions();
  const std::vector<NamedTensor> outputs = call.run(leaves);
  require<AutogradError>(versions() == before, detail::type_name(model),
                         ": forward overwrites its input, which a trace would miss; compute a new "
                         "tensor");
  std::vector<Edge> ends;  // hold the tape
  for (const auto& [name, y] : outputs) {
    require_traced(y);
    ends.push_back(gradient_edge(y));
  }
  TapeReader reader(model, named);
  Trace found{.nodes = reader.read(ends), .outputs = {}};
  reader.complete(found.nodes);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    found.outputs.emplace_back(outputs[i].name, reader.argument(ends[i], outputs[i].tensor));
  return found;
}

namespace {

/// The versions (Note [Versions] in autograd/saved_tensor.h) of all tensors that a trace uses.
std::vector<std::uint64_t> versions_of(const Trace& trace) {
  std::vector<std::uint64_t> versions;
  const auto add = [&](const Tensor& x) { versions.push_back(x.defined() ? x.version() : 0); };
  for (const GraphNode& node : trace.nodes) {
    add(node.value);
    for (const GraphArgument& argument : node.arguments) add(argument.constant);
    for (const auto& [name, value] : node.attributes)
      if (const auto* tensor = std::get_if<Tensor>(&value)) add(*tensor);
  }
  return versions;
}

/// Puts the parameters and buffers of a model back, as they are now.
class KeptState {
 public:
  explicit KeptState(Module& model) {
    const NoGradGuard no_grad;
    detail::walk(model.self(), [&](const std::string&, Module&, detail::Members& members) {
      for (auto* tensors : {&members.parameters, &members.buffers})
        for (auto& [name, tensor] : *tensors)
          places_.push_back({tensor, *tensor, tensor->detach().clone(), tensor->version()});
    });
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;
  ~KeptState() {
    const NoGradGuard no_grad;
    for (Place& p : places_) {
      if (p.at->impl_ptr() == p.tensor.impl_ptr() && p.tensor.version() == p.version) continue;
      *p.at = p.tensor;
      p.tensor.copy_(p.copy);
    }
  }

 private:
  struct Place {
    Tensor* at;
    Tensor tensor, copy;
    std::uint64_t version;
  };
  std::vector<Place> places_;
};

}  // namespace

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&]<class T>(const T& value) {
        [[maybe_unused]] const T& other = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>)
          return true;
        else if constexpr (std::is_same_v<T, double>)
          return value == other || (std::isnan(value) && std::isnan(other));
        else
          return value == other;
      },
      a);
}

std::optional<Trace> trace_again(const ModelCall& call, const Tensors& inputs, int kind,
                                 const Trace& first) {
  if (kind > 0 &&
      std::ranges::none_of(inputs, [](const Tensor& x) { return is_floating(x.dtype()); }))
    return {};  // the same as kind 0
  const KeptState kept(call.model);
  const std::vector<std::uint64_t> versions = versions_of(first);
  std::optional<Trace> found;
  try {
    found = trace(call, inputs);
  } catch (const AutogradError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // forward refuses such elements
    if (kind == 0) throw;
  }
  require(
      versions_of(first) == versions, detail::type_name(call.model),
      ": forward overwrites a buffer or a parameter that it computes with; a file can hold only "
      "one state of it");
  return found;
}

}  // namespace rondo::nn
