// The first step of a reduce-scatter. Steps 1 to N - 2 are missing.
#include <rondo/rondo.h>

#include <vector>

#include "exercise.h"

namespace dist = rondo::dist;

void reduce_scatter(dist::Transport& transport, float* data, std::size_t length) {
  const int n = transport.world_size(), r = transport.rank();
  if (n == 1) return;
  const int next = (r + 1) % n, previous = (r + n - 1) % n, tag = 1;
  std::vector<float> arriving(length);

  float* mine = data + static_cast<std::size_t>(r) * length;
  float* theirs = data + static_cast<std::size_t>(previous) * length;
  dist::Request in = transport.recv(previous, tag, arriving.data(), length * sizeof(float));
  dist::Request out = transport.send(next, tag, mine, length * sizeof(float));
  wait(transport, in);
  wait(transport, out);
  for (std::size_t i = 0; i < length; ++i) theirs[i] += arriving[i];
}
