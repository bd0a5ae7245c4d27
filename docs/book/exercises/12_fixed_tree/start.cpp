// A sum whose order depends on the number of ranks.
#include "exercise.h"

float sum_of_all(rondo::dist::Transport& transport, const std::vector<float>& mine) {
  float sum = 0;
  for (const float value : mine) sum += value;
  for (int bit = 1; bit < transport.world_size(); bit *= 2)
    sum += exchange(transport, transport.rank() ^ bit, sum);
  return sum;
}
