// The shares of the ranks, which train together: a step of each needs a step of all.
//
// start fails: of 4 ranks and 10 samples, rank 2 makes 2 steps and rank 0 makes 3
#include <rondo/rondo.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
namespace data = rondo::data;

namespace {

void check(std::int64_t size, int world, Rest rest) {
  std::vector<std::vector<std::int64_t>> shares;
  for (int r = 0; r < world; ++r) shares.push_back(share_of(size, r, world, rest));
  for (int r = 0; r < world; ++r) {
    const auto& mine = shares[static_cast<std::size_t>(r)];
    // With fewer steps, a rank would leave, and the others would wait for its gradients forever.
    rd::require(mine.size() == shares[0].size(), "of ", world, " ranks and ", size,
                " samples, rank ", r, " makes ", mine.size(), " steps and rank 0 makes ",
                shares[0].size());
    const data::DistributedSampler sampler(
        size, {.rank = r, .world_size = world, .shuffle = false, .drop_last = rest == Rest::drop});
    rd::require(mine == sampler.indices(), "of ", world, " ranks and ", size, " samples, rank ", r,
                " has another share than DistributedSampler gives it with drop_last = ",
                rest == Rest::drop);
  }
}

int run() {
  for (const Rest rest : {Rest::pad, Rest::drop})
    for (const std::int64_t size : {12, 10, 9, 4, 3})
      for (const int world : {4, 1, 2, 3}) check(size, world, rest);
  std::cout << "all ranks make equally many steps\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
