// The bytes of a ring, for a count that the number of ranks divides.
#include <rondo/rondo.h>

std::int64_t bytes_of_ring(int, int world_size, std::int64_t count) {
  const std::int64_t segment = count / world_size;
  return 2 * (world_size - 1) * segment * 4;
}
