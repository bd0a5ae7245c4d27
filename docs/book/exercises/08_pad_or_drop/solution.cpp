// Pads or cuts the order first, so that the number of ranks divides it.
#include "exercise.h"

std::vector<std::int64_t> share_of(std::int64_t size, int rank, int world_size, Rest rest) {
  const std::int64_t each =
      rest == Rest::drop ? size / world_size : (size + world_size - 1) / world_size;
  std::vector<std::int64_t> share;
  for (std::int64_t k = 0; k < each; ++k) share.push_back((k * world_size + rank) % size);
  return share;
}
