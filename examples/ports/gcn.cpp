// A graph convolutional network (Kipf and Welling 2017): finds the group of each node of a graph,
// given the groups of a few. The graph is random: nodes of one group are linked more often.
//
//   build/bin/ports/gcn

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

struct Graph {
  Tensor adjacency;  // normalised: D^-1/2 (A + I) D^-1/2
  Tensor features, groups;
};

/// Nodes of a group share a link with probability `within`, others with `between`. The features
/// are noisy hints of the group.
Graph random_graph(std::int64_t nodes, std::int64_t groups, double within, double between) {
  const Tensor group = rd::arange(nodes) % groups;
  const Tensor same = eq(group.unsqueeze(0), group.unsqueeze(1));
  const Tensor chance =
      where(same, rd::full({nodes, nodes}, within), rd::full({nodes, nodes}, between));
  const Tensor half = triu(bernoulli(chance), 1);
  const Tensor linked = half + half.t() + rd::eye(nodes);
  const Tensor scale = rsqrt(linked.sum({1}));
  return {linked * scale.unsqueeze(0) * scale.unsqueeze(1),
          one_hot(group, groups).to(rd::f32) + rd::randn({nodes, groups}) * 2.0, group};
}

struct Gcn : nn::Module {
  const Graph& graph;
  nn::Linear first, second;
  nn::Dropout dropout;

  Gcn(const Graph& graph, std::int64_t hidden, std::int64_t groups, double dropout)
      : graph(graph),
        first(graph.features.size(1), hidden, {.bias = false}),
        second(hidden, groups, {.bias = false}),
        dropout(dropout) {}

  /// The logits of each node, from the features of its neighbours and of theirs.
  Tensor forward(const Tensor& x) override {
    const Tensor hidden = relu(matmul(graph.adjacency, first(dropout(x))));
    return matmul(graph.adjacency, second(dropout(hidden)));
  }
  void visit(nn::Visitor& v) override {
    v.child("first", first);
    v.child("second", second);
    v.child("dropout", dropout);
  }
};

int run(int argc, char** argv) {
  int epochs = 200;
  std::int64_t nodes = 400, groups = 4, known = 40, hidden = 16;
  double lr = 0.01, weight_decay = 5e-4, dropout = 0.5;
  rd::flags::CommandLine line("Finds the groups of the nodes of a random graph.");
  line.add("--nodes", nodes, "nodes of the graph", rd::flags::count());
  line.add("--groups", groups, "groups of nodes", rd::flags::count());
  line.add("--known", known, "nodes whose group is known", rd::flags::count());
  line.add("--hidden", hidden, "features of a node in the hidden layer", rd::flags::count());
  line.add("--epochs", epochs, "training steps", rd::flags::count());
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--weight-decay", weight_decay, "L2 penalty", rd::flags::not_negative());
  line.add("--dropout", dropout, "fraction of the features that are dropped");
  if (const auto status = line.parse(argc, argv)) return *status;
  rd::require(known < nodes, "--known ", known, " must be less than --nodes ", nodes);

  rd::manual_seed(42);
  const Graph graph = random_graph(nodes, groups, 0.06, 0.01);
  Gcn net(graph, hidden, groups, dropout);
  rd::optim::Adam adam(net.parameters(), {.lr = lr, .weight_decay = weight_decay});
  const Tensor known_groups = graph.groups.narrow(0, 0, known),
               other_groups = graph.groups.narrow(0, known, nodes - known);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    adam.zero_grad();
    const Tensor loss = cross_entropy(net(graph.features).narrow(0, 0, known), known_groups);
    loss.backward();
    adam.step();
    if (epoch % 20 != 0) continue;
    const nn::EvalMode eval(net);
    const rd::NoGradGuard no_grad;
    const Tensor found = net(graph.features).argmax(1).narrow(0, known, nodes - known);
    std::printf("epoch %d: loss %.4f, %.1f %% of the other nodes\n", epoch, loss.item(),
                100 * eq(found, other_groups).to(rd::f32).mean().item());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
