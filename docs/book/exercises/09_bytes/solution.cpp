// The bytes of a ring. The reduce-scatter sends all segments except r + 1, the all-gather all
// except r + 2.
#include <rondo/rondo.h>

#include "dist/collectives/algorithms/element_range.h"

namespace dist = rondo::dist;

std::int64_t bytes_of_ring(int rank, int world_size, std::int64_t count) {
  const auto segment = [&](int s) {
    return dist::part({0, count}, s % world_size, world_size).size();
  };
  return (2 * count - segment(rank + 1) - segment(rank + 2)) * 4;
}
