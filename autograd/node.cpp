#include "autograd/node.h"

#include <atomic>

#include "autograd/grad_mode.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

std::atomic<std::uint64_t> nodes_made{0};

}  // namespace

std::uint64_t Node::next_sequence() { return nodes_made.load(std::memory_order_relaxed); }

Node::Node() : sequence(nodes_made.fetch_add(1, std::memory_order_relaxed)) {
  if (AnomalyMode::is_enabled() || is_recording()) scope = ScopeName::path();
}

// Note [Teardown is iterative]
// A node owns the nodes its edges lead to, so the default destructor of a long chain would recurse
// once for each of its nodes, perhaps 400,000, and overflow the stack. Instead, a dying node moves
// its edges to a list, and the outermost destructor on this thread empties that list in a loop.
Node::~Node() {
  thread_local std::vector<std::shared_ptr<Node>>* dying = nullptr;
  if (dying != nullptr) {
    for (Edge& edge : edges) {
      if (edge.node) dying->push_back(std::move(edge.node));
    }
    return;
  }
  std::vector<std::shared_ptr<Node>> list;
  dying = &list;
  for (Edge& edge : edges) {
    if (edge.node) list.push_back(std::move(edge.node));
  }
  while (!list.empty()) {
    std::shared_ptr<Node> node = std::move(list.back());
    list.pop_back();
    node.reset();  // may push onto the list
  }
  dying = nullptr;
}

}  // namespace rondo
