// The ranks beyond a power of two give their value to a partner, and receive the sum from it.
#include <bit>

#include "exercise.h"

namespace dist = rondo::dist;

float sum_of_all(dist::Transport& transport, float value) {
  const int n = transport.world_size(), rank = transport.rank();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  if (rank >= power) {
    send(transport, rank - power, value);
    return receive(transport, rank - power);
  }
  const bool has_partner = rank + power < n;
  if (has_partner) value += receive(transport, rank + power);
  for (int bit = 1; bit < power; bit *= 2) value += exchange(transport, rank ^ bit, value);
  if (has_partner) send(transport, rank + power, value);
  return value;
}
