// One step of README's twenty lines: its tape, and what runs in which part of it.
//
//   build/bin/book/01_step [trace.json]     also writes the times of the step for a trace viewer
#include <rondo/rondo.h>

#include <iomanip>
#include <iostream>
#include <map>

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {
void print_tape(const rd::Node* node, int depth = 0);
void print_events(const rd::train::Profiler& profiler);
}  // namespace

int main(int argc, char** argv) {
  rd::manual_seed(1);
  Tensor x = rd::rand({1000, 2}) * 2.0 - 1.0;
  Tensor y = lt(sum(square(x), {1}), 0.6).to(rd::i64);
  nn::Sequential net{nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 2)};
  rd::optim::Adam adam(net.parameters(), {.lr = 0.01});
  std::cout << "the tape:\n";
  print_tape(gradient_edge(cross_entropy(net(x), y)).node.get());

  rd::train::Profiler profiler({.record_shapes = true});
  for (int i = 0; i <= 10; ++i) {  // the first steps allocate memory; the last one is recorded
    std::optional<rd::train::Profiler::Recording> recording;
    if (i == 10) recording.emplace(profiler.start());
    const rd::RecordFunction step("step");
    {
      const rd::RecordFunction part("zero_grad");
      adam.zero_grad();
    }
    cross_entropy(net(x), y).backward();
    adam.step();
  }
  std::cout << "\nthe step:\n";
  print_events(profiler);
  if (argc > 1) profiler.write_chrome_trace(argv[1]);
}

namespace {

/// Prints the nodes from y to the leaves, each below the node that sends it a gradient.
void print_tape(const rd::Node* node, int depth) {
  std::cout << std::string(static_cast<std::size_t>(2 * depth), ' ') << node->name() << "\n";
  for (const rd::Edge& edge : node->edges)
    if (edge.node) print_tape(edge.node.get(), depth + 1);
}

/// Prints the events of the main thread, each indented below the one in which it ran.
void print_events(const rd::train::Profiler& profiler) {
  const char* kinds[] = {"", "range", "module", "op", "tape", "backward", "optimizer", "data"};
  std::map<std::int32_t, int> depth = {{0, -1}};
  const auto& events = profiler.threads()[0].events;
  for (std::int32_t i = 1; i < std::ssize(events); ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    depth[i] = depth[event.parent] + 1;
    const std::string indent(static_cast<std::size_t>(2 * depth[i]), ' ');
    std::cout << std::left << std::setw(11) << kinds[static_cast<int>(event.kind)] << std::setw(26)
              << rd::concat(indent, event.name.empty() ? "(the model)" : event.name) << event.shapes
              << "\n";
  }
}

}  // namespace
