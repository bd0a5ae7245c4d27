// Recursive doubling. In round k each rank exchanges all of its data with the rank whose number
// differs in bit k, and both add. After round k every rank holds the sum over the 2^(k+1) ranks
// whose numbers differ from its own only in the lowest k+1 bits. For N = 4:
//
//              rank 0     rank 1     rank 2     rank 3
//   start      0          1          2          3
//   k = 0      01         01         23         23
//   k = 1      0123       0123       0123       0123
//
// Each rank sends all of its data log2 N times. A ring sends less, in more and smaller messages.
//
// Both partners of a round compute (lower op higher), so that all ranks get equal bits: for
// example, the minimum of -0 and +0 depends on the order. (Thakur, Rabenseifner and Gropp 2005,
// "Optimization of collective communication operations in MPICH".)

#include "dist/collectives/algorithms/recursive_doubling.h"

#include "dist/collectives/algorithms/power_of_two.h"

namespace rondo::dist {
namespace {

std::vector<Round> doubling_rounds_of(int rank, int world_size, std::int64_t count, ReduceOp op) {
  const PowerOfTwo ranks(rank, world_size);
  const ElementRange all{0, count};
  return ranks.with_the_others(all, [&] {
    std::vector<Round> rounds;
    for (const auto [peer, is_above] : ranks.partners())
      rounds.push_back({.peer = peer,
                        .send = all,
                        .recv = all,
                        .arrival = is_above ? Round::ours_first : Round::theirs_first});
    // The last addition also divides, so an average is rounded once.
    if (op == ReduceOp::avg && !rounds.empty()) rounds.back().divisor = world_size;
    return rounds;
  });
}

}  // namespace

std::unique_ptr<Operation> recursive_doubling_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                                         void* data, std::int64_t count,
                                                         DType dtype, ReduceOp op, int tag) {
  check_reducible(dtype, op);
  return in_rounds(transport, scratch, data, dtype, op,
                   doubling_rounds_of(transport.rank(), transport.world_size(), count, op), tag);
}

}  // namespace rondo::dist
