// Recursive halving, then doubling. In the first half each rank splits the range that it is
// responsible for in two. It sends one half to a partner, which is responsible for that half from
// then on, receives the partner's values of the other half, and adds them to its own. After log2 N
// such rounds it holds 1 / N of the data, completely reduced. The second half repeats these
// exchanges in reverse order with complete elements, until all ranks have all of them. For N = 4;
// each rank's quarters are written as the sets of ranks whose values are in them:
//
//              rank 0           rank 1           rank 2           rank 3
//   start      0 0 0 0          1 1 1 1          2 2 2 2          3 3 3 3
//   halve      01 01 . .        . . 01 01        23 23 . .        . . 23 23
//   halve      0123 . . .       . . 0123 .       . 0123 . .       . . . 0123
//   double     0123 0123 . .    . . 0123 0123    0123 0123 . .    . . 0123 0123
//   double     all              all              all              all
//
// As in a ring, each rank sends 2 (N - 1) / N of the data, but in 2 log2 N messages instead of 2 (N
// - 1). Unlike in a ring, nothing is passed on before it has arrived completely. Half of all data
// goes to the partner with the next number, which is likely to be near. If N is not a power of two,
// the ranks that take no part send and receive all data once more.
//
// Partners differ in the lowest bit first, as in recursive doubling. So both algorithms add along
// the same tree of ranks, ((0 1) (2 3)) …, and their results are bit-identical.
//
// Each element is summed on one rank and then copied, so the result is bit-identical on all ranks.
// (Rabenseifner 2004, "Optimization of collective reduction operations".)

#include "dist/collectives/algorithms/halving_doubling.h"

#include "dist/collectives/algorithms/power_of_two.h"

namespace rondo::dist {
namespace {

std::vector<Round> rounds_of(int rank, int world_size, std::int64_t count, ReduceOp op) {
  const PowerOfTwo ranks(rank, world_size);
  const ElementRange all{0, count};
  return ranks.with_the_others(all, [&] {
    std::vector<Round> halving, doubling;
    ElementRange ours = all;
    for (const auto [peer, is_above] : ranks.partners()) {
      const ElementRange kept = part(ours, is_above ? 0 : 1, 2),
                         given = part(ours, is_above ? 1 : 0, 2);
      halving.push_back({.peer = peer,
                         .send = given,
                         .recv = kept,
                         .arrival = is_above ? Round::ours_first : Round::theirs_first});
      doubling.push_back({.peer = peer, .send = kept, .recv = given, .arrival = Round::replace});
      ours = kept;
    }
    // The last addition also divides, so an average is rounded once.
    if (op == ReduceOp::avg && !halving.empty()) halving.back().divisor = world_size;
    halving.insert(halving.end(), doubling.rbegin(), doubling.rend());
    return halving;
  });
}

}  // namespace

std::unique_ptr<Operation> halving_doubling_all_reduce(Transport& transport, ChunkBuffer& scratch,
                                                       void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, int tag) {
  check_reducible(dtype, op);
  return in_rounds(transport, scratch, data, dtype, op,
                   rounds_of(transport.rank(), transport.world_size(), count, op), tag);
}

}  // namespace rondo::dist
