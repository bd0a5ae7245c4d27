// A shift in which neighbours take turns: even ranks send first, odd ranks receive first.
#include <rondo/rondo.h>

#include "exercise.h"

namespace dist = rondo::dist;

float shift(dist::Transport& transport, float sent) {
  const int n = transport.world_size(), r = transport.rank();
  const int next = (r + 1) % n, previous = (r + n - 1) % n;
  if (r % 2 == 0) {
    blocking_send(transport, next, sent);
    return blocking_recv(transport, previous);
  }
  const float received = blocking_recv(transport, previous);
  blocking_send(transport, next, sent);
  return received;
}
