// A sum along one binary tree: within a rank neighbours are added, then pairs of neighbours, and so
// on; the ranks go on with the same tree.
#include "exercise.h"

float sum_of_all(rondo::dist::Transport& transport, const std::vector<float>& mine) {
  std::vector<float> sums = mine;
  for (std::size_t step = 1; step < sums.size(); step *= 2)
    for (std::size_t i = 0; i + step < sums.size(); i += 2 * step) sums[i] += sums[i + step];
  float sum = sums[0];
  for (int bit = 1; bit < transport.world_size(); bit *= 2)
    sum += exchange(transport, transport.rank() ^ bit, sum);
  return sum;
}
