// Two levels. If each of M nodes has L ranks, rank l of every node is responsible for part l of L
// parts of the data:
//
//   1. inside each node   reduce-scatter: rank l gets the node's sum of part l
//   2. between nodes      all-reduce of part l among the ranks l of all nodes: L concurrent rings
//   3. inside each node   all-gather of the parts
//
// The network carries 2 (M - 1) / M of the data into and out of each node; with one ring through
// all ranks it carries 2 (N - 1) / N, which is hardly more. But the data crosses the network in 2
// (M - 1) steps instead of 2 (N - 1), and every rank of a node sends a share of it. For N = 4 on
// two nodes; the halves of the data are written as sets of ranks:
//
//              rank 0     rank 1     |  rank 2     rank 3
//   start      0 0        1 1        |  2 2        3 3
//   1.         01 .       . 01       |  23 .       . 23
//   2.         0123 .     . 0123     |  0123 .     . 0123
//   3.         0123 0123  0123 0123  |  0123 0123  0123 0123
//
// The last elements (fewer than L) that do not fill the parts use recursive doubling. If nodes have
// different numbers of ranks, only the first rank of each node communicates with other nodes: a
// chain of the node's ranks sums to it, the first ranks do an all-reduce, and a chain distributes
// the result.

#include "dist/collectives/algorithms/hierarchical.h"

#include <functional>
#include <numeric>

#include "dist/collectives/algorithms/recursive_doubling.h"
#include "dist/collectives/algorithms/ring_collectives.h"
#include "dist/collectives/algorithms/subset.h"

namespace rondo::dist {
namespace {

struct SequenceStep {
  std::string among;  // the world's numbers of the ranks that take part
  std::function<std::unique_ptr<Operation>()> make;
};

/// Runs one operation after another.
class Sequence final : public Operation {
 public:
  Sequence(std::vector<std::unique_ptr<SubsetTransport>> subsets, std::vector<SequenceStep> steps)
      : subsets_(std::move(subsets)), steps_(std::move(steps)) {}

  Poll poll() override {
    if (at_ == steps_.size()) return Poll::done;
    if (current_ == nullptr) current_ = steps_[at_].make();
    const Poll poll = current_->poll();
    if (poll != Poll::done) return poll;
    current_.reset();
    return ++at_ == steps_.size() ? Poll::done : Poll::moved;
  }
  std::string waiting_for() const override {
    return current_ == nullptr
               ? "nothing"
               : concat(current_->waiting_for(), " of the ranks ", steps_[at_].among);
  }

 private:
  std::vector<std::unique_ptr<SubsetTransport>> subsets_;  // what the steps run on
  std::vector<SequenceStep> steps_;
  std::size_t at_ = 0;
  std::unique_ptr<Operation> current_;
};

/// The ranks of each node, in order of rank; nodes in order of their first rank.
std::vector<std::vector<int>> nodes_of(const std::vector<int>& node_of) {
  std::vector<std::vector<int>> nodes;
  for (int r = 0; r < std::ssize(node_of); ++r) {
    const auto node = std::ranges::find_if(nodes, [&](const std::vector<int>& ranks) {
      return node_of[static_cast<std::size_t>(ranks[0])] == node_of[static_cast<std::size_t>(r)];
    });
    node == nodes.end() ? nodes.push_back({r}) : node->push_back(r);
  }
  return nodes;
}

}  // namespace

std::unique_ptr<Operation> hierarchical_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                                   void* data, std::int64_t count, DType dtype,
                                                   ReduceOp op, const std::vector<int>& node_of,
                                                   RingOptions options) {
  check_reducible(dtype, op);
  const int n = transport.world_size();
  require<CommError>(std::ssize(node_of) == n, "hierarchical all-reduce: node_of has ",
                     node_of.size(), " entries, but the number of ranks is ", n);
  const auto nodes = nodes_of(node_of);
  const auto& mine = *std::ranges::find_if(nodes, [&](const std::vector<int>& ranks) {
    return std::ranges::find(ranks, transport.rank()) != ranks.end();
  });
  const std::size_t place =
      static_cast<std::size_t>(std::ranges::find(mine, transport.rank()) - mine.begin());
  const bool is_even = std::ranges::all_of(
      nodes, [&](const std::vector<int>& ranks) { return ranks.size() == mine.size(); });

  // The ranks at the same place on the other nodes; uneven nodes use only their first rank.
  std::vector<int> counterparts;
  for (const std::vector<int>& ranks : nodes) counterparts.push_back(ranks[is_even ? place : 0]);
  std::vector<std::unique_ptr<SubsetTransport>> subsets;
  subsets.push_back(std::make_unique<SubsetTransport>(transport, mine));
  subsets.push_back(std::make_unique<SubsetTransport>(transport, counterparts));
  SubsetTransport &inside = *subsets[0], &between = *subsets[1];
  std::vector<int> everybody(static_cast<std::size_t>(n));
  std::iota(everybody.begin(), everybody.end(), 0);

  const auto names_of = [&](std::vector<int> some) {
    for (int& r : some) r = transport.rank_in_world(r);
    return text_of(some);
  };

  // Sums inside the nodes. The last addition divides. With a single node it is inside the node.
  const bool is_one_node = nodes.size() == 1;
  const ReduceOp op_inside = op == ReduceOp::avg && !is_one_node ? ReduceOp::sum : op;
  options.divisor = n;
  char* bytes = static_cast<char*>(data);
  const std::int64_t size = size_of(dtype), ranks = std::ssize(mine);
  std::vector<SequenceStep> steps;
  auto all_reduce_between = [&](char* first, std::int64_t elements) {
    if (is_one_node) return;
    steps.push_back({names_of(counterparts), [=, &between, &scratch] {
                       return ring_all_reduce(between, scratch, first, elements, dtype, op,
                                              options);
                     }});
  };
  if (is_even) {
    const std::int64_t part = count / ranks, rest = count - part * ranks;
    steps.push_back({names_of(mine), [=, &inside, &scratch] {
                       return ring_reduce_scatter(inside, scratch, bytes, part, dtype, op_inside,
                                                  options);
                     }});
    all_reduce_between(bytes + static_cast<std::int64_t>(place) * part * size, part);
    steps.push_back({names_of(mine), [=, &inside, &scratch] {
                       return ring_all_gather(inside, scratch, bytes,
                                              static_cast<std::size_t>(part * size), options);
                     }});
    if (rest > 0) {
      steps.push_back({names_of(everybody), [=, &transport, &scratch] {
                         return recursive_doubling_all_reduce(transport, scratch,
                                                              bytes + part * ranks * size, rest,
                                                              dtype, op, options.tag);
                       }});
    }
  } else {
    steps.push_back({names_of(mine), [=, &inside, &scratch] {
                       return chain_reduce(inside, scratch, bytes, count, dtype, op_inside, 0,
                                           options);
                     }});
    if (place == 0) all_reduce_between(bytes, count);
    steps.push_back({names_of(mine), [=, &inside, &scratch] {
                       return chain_broadcast(inside, scratch, bytes,
                                              static_cast<std::size_t>(count * size), 0, options);
                     }});
  }
  return std::make_unique<Sequence>(std::move(subsets), std::move(steps));
}

}  // namespace rondo::dist
