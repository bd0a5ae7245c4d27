// A shift around the ring with calls that block.
//
// start fails: has waited two seconds for a message to be received by rank
#include <rondo/rondo.h>

#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
namespace dist = rondo::dist;

namespace {

/// A request that ends with its scope: then the memory of the message may end, too.
struct Posted {
  dist::Transport& transport;
  dist::Request request;
  ~Posted() { transport.abandon(request); }

  void wait(const char* what, int peer) {
    const auto deadline = dist::Clock::now() + std::chrono::seconds(2);
    while (!transport.test(request)) {
      rd::require<rd::CommError>(dist::Clock::now() < deadline, "rank ", transport.rank(),
                                 " has waited two seconds ", what, " rank ", peer);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
};

}  // namespace

void blocking_send(dist::Transport& transport, int peer, float value) {
  Posted{transport, transport.send(peer, 1, &value, sizeof value)}.wait(
      "for a message to be received by", peer);
}

float blocking_recv(dist::Transport& transport, int peer) {
  float value = 0;
  Posted{transport, transport.recv(peer, 1, &value, sizeof value)}.wait("for a message from", peer);
  return value;
}

namespace {

int run() {
  for (int n : {2, 3, 4, 5}) {
    std::vector<float> received(static_cast<std::size_t>(n));
    dist::run_on_threads(n, [&](const std::shared_ptr<dist::Transport>& transport) {
      const int r = transport->rank();
      received[static_cast<std::size_t>(r)] = shift(*transport, static_cast<float>(r));
    });
    for (int r = 0; r < n; ++r) {
      const auto previous = static_cast<float>((r + n - 1) % n);
      rd::require(received[static_cast<std::size_t>(r)] == previous, "of ", n, " ranks, rank ", r,
                  " received ", received[static_cast<std::size_t>(r)], " instead of ", previous);
    }
  }
  std::cout << "all ranks have the value of the previous rank\n";
  return 0;
}

}  // namespace

int main() { return dist::run(run); }
