// A reduce-scatter: in step t rank r sends segment r - t, and adds what arrives to segment r - t
// - 1.
#include <rondo/rondo.h>

#include <vector>

#include "exercise.h"

namespace dist = rondo::dist;

void reduce_scatter(dist::Transport& transport, float* data, std::size_t length) {
  const int n = transport.world_size(), r = transport.rank();
  const int next = (r + 1) % n, previous = (r + n - 1) % n, tag = 1;
  std::vector<float> arriving(length);
  const auto segment = [&](int s) { return data + static_cast<std::size_t>((s + n) % n) * length; };

  for (int t = 0; t < n - 1; ++t) {
    dist::Request in = transport.recv(previous, tag, arriving.data(), length * sizeof(float));
    dist::Request out = transport.send(next, tag, segment(r - t), length * sizeof(float));
    wait(transport, in);
    wait(transport, out);
    float* into = segment(r - t - 1);
    for (std::size_t i = 0; i < length; ++i) into[i] += arriving[i];
  }
}
