// The binomial tree. Number the ranks from the root: v = rank - root (mod N). The parent of v is v
// without its lowest set bit. Its children are v + 1, v + 2, v + 4, …, as long as the added bit is
// below that lowest set bit and the sum is below N. For N = 8:
//
//                 0
//         +-------+---+---+
//         4           2   1
//      +--+--+        |
//      6     5        3
//      |
//      7
//
// A broadcast goes down, largest subtree first. In each round all ranks that have the data pass it
// on, so the number of ranks that have it doubles, and log2 N rounds reach all. A reduction goes up
// in the reverse order, smallest subtree first: a rank adds its children's sums to its own values
// and sends the sum to its parent.
//
// The root sends or receives all data log2 N times, one message after another, while the leaves are
// idle. For large data a chain is faster, where every link is busy all the time.

#include "dist/collectives/algorithms/binomial_tree.h"

#include <bit>

#include "dist/collectives/algorithms/rounds.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

class Tree {
 public:
  Tree(int rank, int world_size, int root, std::int64_t count)
      : n_(world_size), root_(root), v_((rank - root + world_size) % world_size), all_{0, count} {
    lowest_bit_ = v_ == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n_))) : v_ & -v_;
  }

  std::vector<Round> down() const {
    std::vector<Round> rounds;
    if (v_ != 0) rounds.push_back({.peer = rank_of(v_ - lowest_bit_), .recv = all_});
    for (int bit = lowest_bit_ / 2; bit > 0; bit /= 2) {
      if (v_ + bit < n_) rounds.push_back({.peer = rank_of(v_ + bit), .send = all_});
    }
    return rounds;
  }
  std::vector<Round> up(ReduceOp op) const {
    std::vector<Round> rounds;
    for (int bit = 1; bit < lowest_bit_ && v_ + bit < n_; bit *= 2)
      rounds.push_back({.peer = rank_of(v_ + bit), .recv = all_, .arrival = Round::ours_first});
    // The root's last addition also divides, so an average is rounded once.
    if (v_ == 0 && op == ReduceOp::avg && !rounds.empty()) rounds.back().divisor = n_;
    if (v_ != 0) rounds.push_back({.peer = rank_of(v_ - lowest_bit_), .send = all_});
    return rounds;
  }

 private:
  int rank_of(int v) const { return (v + root_) % n_; }
  int n_, root_, v_, lowest_bit_;
  ElementRange all_;
};

Tree tree_of(const Transport& transport, int root, std::int64_t count) {
  const int n = transport.world_size();
  require<CommError>(0 <= root && root < n, "tree: root is rank ", root, ", but the world has ", n,
                     " ranks");
  return {transport.rank(), n, root, count};
}

}  // namespace

std::unique_ptr<Operation> tree_broadcast(Transport& transport, ChunkBuffer& scratch, void* data,
                                          std::size_t bytes, int root, int tag) {
  const Tree tree = tree_of(transport, root, static_cast<std::int64_t>(bytes));
  return in_rounds(transport, scratch, data, u8, ReduceOp::sum, tree.down(), tag);
}

std::unique_ptr<Operation> tree_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                       std::int64_t count, DType dtype, ReduceOp op, int root,
                                       int tag) {
  check_reducible(dtype, op);
  const Tree tree = tree_of(transport, root, count);
  return in_rounds(transport, scratch, data, dtype, op, tree.up(op), tag);
}

std::unique_ptr<Operation> tree_all_reduce(Transport& transport, ChunkBuffer& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op, int tag) {
  check_reducible(dtype, op);
  const Tree tree = tree_of(transport, 0, count);
  std::vector<Round> rounds = tree.up(op);
  for (const Round& round : tree.down()) rounds.push_back(round);
  return in_rounds(transport, scratch, data, dtype, op, std::move(rounds), tag);
}

}  // namespace rondo::dist
