// Recursive halving, then doubling. In the first half each rank splits what it is still responsible
// for in two, gives one half to a partner who is responsible for that from now on, and adds the
// partner's to the half that it keeps. After log2 N such rounds it has 1 / N of the data, complete.
// The second half retraces the same steps with complete elements, until all have all. For N = 4,
// each rank's quarters as the sets of ranks whose values are in them:
//
//              rank 0           rank 1           rank 2           rank 3
//   start      0 0 0 0          1 1 1 1          2 2 2 2          3 3 3 3
//   halve      01 01 . .        . . 01 01        23 23 . .        . . 23 23
//   halve      0123 . . .       . . 0123 .       . 0123 . .       . . . 0123
//   double     0123 0123 . .    . . 0123 0123    0123 0123 . .    . . 0123 0123
//   double     all              all              all              all
//
// Like a ring each rank sends 2 (N - 1) / N of the data, but in 2 log2 N messages instead of
// 2 (N - 1). What it lacks is a ring's evenness: nothing is passed on before it has arrived whole.
// Half of all data goes to the next rank, which is likely to be near. Where N is no power of two,
// those who stand aside send and receive everything once more.
//
// Partners differ in the lowest bit first, as in recursive doubling. So both add up along the same
// tree of ranks, ((0 1) (2 3)) …, and their results are equal in every bit.
//
// Each element is added up on one rank and then copied, so all ranks end with equal bits.
// (Rabenseifner 2004, "Optimization of collective reduction operations".)

#include "dist/collectives/algorithms/halving_doubling.h"

#include "dist/collectives/algorithms/power_of_two.h"

namespace rondo::dist {
namespace {

std::vector<Round> rounds_of(int rank, int world_size, std::int64_t count, ReduceOp op) {
  const PowerOfTwo ranks(rank, world_size);
  const Range all{0, count};
  return ranks.with_the_others(all, [&] {
    std::vector<Round> halving, doubling;
    Range ours = all;
    for (const auto [peer, is_above] : ranks.partners()) {
      const Range kept = part(ours, is_above ? 0 : 1, 2), given = part(ours, is_above ? 1 : 0, 2);
      halving.push_back({.peer = peer,
                         .send = given,
                         .recv = kept,
                         .arrival = is_above ? Round::ours_first : Round::theirs_first});
      doubling.push_back({.peer = peer, .send = kept, .recv = given, .arrival = Round::replace});
      ours = kept;
    }
    // The last addition divides: an average is rounded once.
    if (op == ReduceOp::avg && !halving.empty()) halving.back().divisor = world_size;
    halving.insert(halving.end(), doubling.rbegin(), doubling.rend());
    return halving;
  });
}

}  // namespace

std::unique_ptr<Operation> halving_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                                       void* data, std::int64_t count, DType dtype,
                                                       ReduceOp op, int tag) {
  check_reducible(dtype, op);
  return in_rounds(transport, scratch, data, dtype, op,
                   rounds_of(transport.rank(), transport.world_size(), count, op), tag);
}

}  // namespace rondo::dist
