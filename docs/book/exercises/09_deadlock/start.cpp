// A shift in which every rank sends first. No rank ever receives.
#include <rondo/rondo.h>

#include "exercise.h"

namespace dist = rondo::dist;

float shift(dist::Transport& transport, float sent) {
  const int n = transport.world_size(), r = transport.rank();
  const int next = (r + 1) % n, previous = (r + n - 1) % n;
  blocking_send(transport, next, sent);
  return blocking_recv(transport, previous);
}
