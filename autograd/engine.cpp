#include "autograd/engine.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "autograd/accumulate_grad.h"
#include "autograd/autocast.h"
#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "autograd/ops/arithmetic.h"
#include "tensor/backend.h"
#include "tensor/cpu/share_cores.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

thread_local int depth = 0;  // number of nested backward calls on this thread
thread_local std::vector<std::function<void()>> callbacks;
thread_local std::uint64_t backwards = 0;  // outermost calls that have ended
// The nodes whose gradients the running node must compute; null: all.
thread_local const std::unordered_set<Node*>* wanted = nullptr;

bool has_nan(const Tensor& x) {
  Tensor flags = Tensor::empty(x.shape(), {.dtype = boolean, .device = x.device()});
  Tensor any = Tensor::empty(Dims::filled(x.dim(), 1), flags.options());
  backend(x).unary(UnaryOp::isnan, x, flags);
  backend(x).reduce(ReductionOp::any, flags, any);
  return x.numel() > 0 && any.item<bool>();
}

/// One run of the tape.
class TapeRun {
 public:
  TapeRun(BackwardOptions options) : options_(options) {}

  /// Requests the gradient that reaches this edge; the caller reads it from `captured(i)`.
  void capture(const Edge& edge) { captures_.push_back({edge, {}}); }
  const Tensor& captured(std::size_t i) const { return captures_[i].gradient; }

  void execute(const std::vector<Edge>& roots, const Tensors& gradients) {
    count_dependencies(roots);
    const GradModeGuard mode(options_.create_graph);
    const NoAutocast as_forward_was;  // uses the forward's types; Note [Mixed precision]
    for (std::size_t i = 0; i < roots.size(); ++i) {
      if (roots[i].node) add_gradient(roots[i], gradients[i]);
    }
    for (const Edge& root : roots) {
      // A root that is also reached from another root must wait for that one.
      if (root.node && runs(root.node.get()) && dependencies_[root.node.get()] == 0 &&
          queued_.insert(root.node.get()).second) {
        ready_.push(root.node);
      }
    }
    while (!ready_.empty()) {
      std::shared_ptr<Node> node = ready_.top();
      ready_.pop();
      run_node(node);
    }
  }

 private:
  struct Capture {
    Edge edge;
    Tensor gradient;
  };
  struct LatestOnTop {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->sequence < b->sequence;
    }
  };

  bool is_captured(const Node* node) const {
    for (const Capture& capture : captures_) {
      if (capture.edge.node.get() == node) return true;
    }
    return false;
  }
  /// With captures, only a captured node or one that leads to a capture receives its gradient.
  bool runs(Node* node) const { return captures_.empty() || needed_.contains(node); }
  /// Only nodes that lead to a capture pass gradients on. Nodes below a capture neither run nor are
  /// freed.
  bool passes_on(const Node* node) const {
    if (captures_.empty()) return true;
    return std::ranges::any_of(
        node->edges, [this](const Edge& edge) { return edge.node && runs(edge.node.get()); });
  }

  /// Depth-first without recursion. Counts, for each node, the edges to it from nodes that will
  /// run, and finds (in post-order) the nodes that lead to a capture.
  void count_dependencies(const std::vector<Edge>& roots) {
    std::unordered_set<Node*> seen;
    std::vector<std::pair<Node*, std::size_t>> stack;
    std::vector<Node*> finished;
    for (const Edge& root : roots) {
      if (!root.node || !seen.insert(root.node.get()).second) continue;
      stack.emplace_back(root.node.get(), 0);
      while (!stack.empty()) {
        auto& [node, next] = stack.back();
        if (next == node->edges.size()) {
          finished.push_back(node);
          stack.pop_back();
          continue;
        }
        Node* child = node->edges[next++].node.get();
        if (child != nullptr && seen.insert(child).second) stack.emplace_back(child, 0);
      }
    }
    if (!captures_.empty()) {
      for (Node* node : finished) {  // in post-order: nodes closer to the leaves come first
        if (is_captured(node) || passes_on(node)) needed_.insert(node);
      }
    }
    for (Node* node : finished) {
      if (!runs(node)) continue;
      for (const Edge& edge : node->edges) {
        if (edge.node && runs(edge.node.get())) ++dependencies_[edge.node.get()];
      }
    }
  }

  void add_gradient(const Edge& edge, Tensor gradient) {
    const OutputMeta& meta = edge.node->outputs[static_cast<std::size_t>(edge.output)];
    if (gradient.dtype() != meta.dtype) gradient = gradient.to(meta.dtype);
    Tensors& buffer = buffers_[edge.node.get()];
    buffer.resize(edge.node->outputs.size());
    Tensor& sum = buffer[static_cast<std::size_t>(edge.output)];
    if (!sum.defined()) {
      sum = std::move(gradient);
    } else if (!GradMode::is_enabled() && sum.impl_ptr().use_count() == 1 &&
               sum.storage().use_count() == 1 && sum.is_contiguous(sum.suggested_format())) {
      // Dense, because in an expanded gradient one element stands for many.
      backend(sum).binary(BinaryOp::add, sum, gradient, sum);  // no other tensor shares it
    } else {
      sum = add(sum, gradient);
    }
  }

  void run_node(const std::shared_ptr<Node>& node) {
    RecordFunction range;
    if (is_recording()) range.open(node->name(), EventKind::backward, node->scope);
    Tensors gradients = std::move(buffers_[node.get()]);
    buffers_.erase(node.get());
    gradients.resize(node->outputs.size());
    run_hooks(*node, gradients);
    for (Capture& capture : captures_) {
      if (capture.edge.node == node) {
        capture.gradient = gradients[static_cast<std::size_t>(capture.edge.output)];
      }
    }
    if (!passes_on(node.get())) return;  // so grad() changes no .grad
    bool any = false;
    for (const Tensor& gradient : gradients) any = any || gradient.defined();
    Tensors results(node->edges.size());
    if (any) {
      results = run_backward(*node, gradients);
      gradients.clear();
      if (!node->edges.empty()) check(*node, results);
      if (!options_.retain_graph) node->release_saved();
    }
    for (std::size_t i = 0; i < node->edges.size(); ++i) {
      const Edge& edge = node->edges[i];
      if (!edge.node || !runs(edge.node.get())) continue;
      if (results[i].defined()) add_gradient(edge, std::move(results[i]));
      if (--dependencies_[edge.node.get()] == 0 && queued_.insert(edge.node.get()).second) {
        ready_.push(edge.node);
      }
    }
  }

  Tensors run_backward(Node& node, const Tensors& gradients) const {
    struct Restore {
      const std::unordered_set<Node*>* before;
      ~Restore() { wanted = before; }
    } restore{std::exchange(wanted, captures_.empty() ? nullptr : &needed_)};
    return node.backward(gradients);
  }

  /// Runs the hooks on a node's outputs, or on a leaf. Copies the lists, because a hook may remove
  /// itself.
  static void run_hooks(const Node& node, Tensors& gradients) {
    auto apply = [&](const AutogradMeta::GradHook& hook, std::size_t output) {
      Tensor& gradient = gradients[output];
      if (!gradient.defined()) return;
      Tensor replaced = hook(gradient);
      if (!replaced.defined()) return;
      const OutputMeta& meta = node.outputs[output];
      require<ShapeError>(replaced.shape() == meta.shape, "a hook on output ", output, " of ",
                          node.name(), " returned a gradient of shape ", replaced.shape(),
                          " in place of one of shape ", meta.shape);
      require<DTypeError>(replaced.dtype() == meta.dtype, "a hook on output ", output, " of ",
                          node.name(), " returned a gradient of ", replaced.dtype(),
                          " in place of one of ", meta.dtype);
      require<DeviceError>(replaced.device() == meta.device, "a hook on output ", output, " of ",
                           node.name(), " returned a gradient on ", replaced.device(),
                           " in place of one on ", meta.device);
      gradient = replaced;
    };
    auto hooks = node.hooks;
    for (const bool retains : {false, true}) {  // the kept gradient is the one that flows on
      for (const Node::Hook& hook : hooks) {
        if ((hook.retained_by != nullptr) == retains)
          apply(hook.run, static_cast<std::size_t>(hook.output));
      }
    }
    if (auto* leaf = dynamic_cast<const AccumulateGrad*>(&node)) {
      auto leaf_hooks = autograd_meta(leaf->leaf).leaf_hooks;
      for (const auto& [id, hook] : leaf_hooks) apply(hook, 0);
    }
  }

  void check(const Node& node, const Tensors& results) const {
    require<AutogradError>(results.size() == node.edges.size(), "backward of ", node.name(),
                           ": returned ", results.size(), " gradients for ", node.edges.size(),
                           " inputs");
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!edge.node || !runs(edge.node.get()) || !results[i].defined()) continue;
      const OutputMeta& meta = edge.node->outputs[static_cast<std::size_t>(edge.output)];
      require<ShapeError>(results[i].shape() == meta.shape, "backward of ", node.name(),
                          ": gradient ", results[i].shape(), " for input ", i, " of shape ",
                          meta.shape);
      if (AnomalyMode::is_enabled()) {
        require<AutogradError>(!has_nan(results[i]), "backward of ", node.name(),
                               " returned NaN in the gradient of input ", i, " of shape ",
                               meta.shape, node.scope.empty() ? "" : ", recorded in ", node.scope);
      }
    }
  }

  BackwardOptions options_;
  std::vector<Capture> captures_;
  std::unordered_set<Node*> needed_, queued_;
  std::unordered_map<Node*, int> dependencies_;
  std::unordered_map<Node*, Tensors> buffers_;  // the gradients received so far, by output
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, LatestOnTop>
      ready_;
};

Tensors initial_gradients(const Tensors& roots, const Tensors& gradients) {
  require<AutogradError>(gradients.empty() || gradients.size() == roots.size(),
                         "backward: ", gradients.size(), " gradients for ", roots.size(),
                         " outputs");
  Tensors initial;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    roots[i].require_defined("backward", "the tensor");
    require<AutogradError>(roots[i].requires_grad(), "backward: output ", i,
                           " does not depend on anything that requires a gradient; compute it "
                           "outside NoGradGuard, from a leaf after requires_grad_()");
    if (!gradients.empty() && gradients[i].defined()) {
      require<ShapeError>(gradients[i].shape() == roots[i].shape(), "backward: gradient ",
                          gradients[i].shape(), " for an output of shape ", roots[i].shape());
      initial.push_back(gradients[i]);
    } else {
      require<AutogradError>(roots[i].numel() == 1, "backward: output ", i, " has shape ",
                             roots[i].shape(),
                             "; pass a gradient for an output with more than one element");
      initial.push_back(ones_like(roots[i]));
    }
  }
  return initial;
}

/// Counts nesting. When the outermost run ends without an exception, it calls the queued callbacks.
class Nesting {
 public:
  Nesting() { ++depth; }
  ~Nesting() {
    if (--depth == 0) callbacks.clear();
  }
  void finish() {
    if (depth != 1) return;
    while (!callbacks.empty()) {  // a callback may queue another one
      for (auto& f : std::exchange(callbacks, {})) f();
    }
  }
};

void run(TapeRun& task, const Tensors& roots, const Tensors& gradients) {
  const RecordFunction range("backward", EventKind::tape);
  Nesting nesting;
  Tensors initial = initial_gradients(roots, gradients);
  std::vector<Edge> edges;
  for (const Tensor& root : roots) edges.push_back(gradient_edge(root));
  task.execute(edges, initial);
  nesting.finish();
}

}  // namespace

bool Node::wants(std::size_t i) const {
  Node* node = edges[i].node.get();
  return node != nullptr && (wanted == nullptr || wanted->contains(node));
}

void backward(const Tensors& roots, const Tensors& gradients, BackwardOptions options) {
  options.retain_graph = options.retain_graph || options.create_graph;
  TapeRun task(options);
  run(task, roots, gradients);
  if (depth > 0) return;
  ++backwards;
  cpu::share_cores();
}

std::uint64_t backwards_run() { return backwards; }

Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options) {
  TapeRun task({.retain_graph = options.retain_graph || options.create_graph,
                .create_graph = options.create_graph});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require<AutogradError>(inputs[i].requires_grad(), "grad: input ", i,
                           " does not require a gradient");
    task.capture(gradient_edge(inputs[i]));
  }
  if (inputs.empty()) return {};
  run(task, outputs, options.grad_outputs);
  Tensors gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require<AutogradError>(task.captured(i).defined() || options.allow_unused,
                           "grad: the outputs do not "
                           "depend on input ",
                           i, "; pass allow_unused to get an undefined tensor");
    gradients.push_back(task.captured(i));
  }
  return gradients;
}

void queue_callback(std::function<void()> f) {
  require<AutogradError>(depth > 0, "queue_callback: no backward is running");
  callbacks.push_back(std::move(f));
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  rondo::backward({*this}, gradient.defined() ? Tensors{gradient} : Tensors{},
                  {.retain_graph = retain_graph, .create_graph = create_graph});
}

}  // namespace rondo
