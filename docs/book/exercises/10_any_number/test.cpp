// Recursive doubling for any number of ranks, which are threads.
//
// start fails: of 3 ranks, rank 1 has the sum 11 instead of 111
#include <rondo/rondo.h>

#include <bit>
#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
namespace dist = rondo::dist;

namespace {

constexpr int tag = 1;

void wait(dist::Transport& transport, dist::Request request) {
  const auto deadline = dist::Clock::now() + std::chrono::seconds(5);
  while (!transport.test(request)) {
    rd::require<rd::CommError>(dist::Clock::now() < deadline, "rank ", transport.rank(),
                               " has waited five seconds for a message");
    std::this_thread::yield();
  }
}

}  // namespace

float exchange(dist::Transport& transport, int peer, float value) {
  float theirs = 0;
  const dist::Request in = transport.recv(peer, tag, &theirs, sizeof theirs);
  const dist::Request out = transport.send(peer, tag, &value, sizeof value);
  wait(transport, in);
  wait(transport, out);
  return theirs;
}

void send(dist::Transport& transport, int peer, float value) {
  wait(transport, transport.send(peer, tag, &value, sizeof value));
}

float receive(dist::Transport& transport, int peer) {
  float theirs = 0;
  wait(transport, transport.recv(peer, tag, &theirs, sizeof theirs));
  return theirs;
}

namespace {

void check(int n) {
  std::vector<float> sums(static_cast<std::size_t>(n));
  std::vector<std::int64_t> sent(static_cast<std::size_t>(n));
  dist::run_on_threads(n, [&](const std::shared_ptr<dist::Transport>& transport) {
    const auto r = static_cast<std::size_t>(transport->rank());
    float mine = 1;  // 10^rank
    for (std::size_t i = 0; i < r; ++i) mine *= 10;
    sums[r] = sum_of_all(*transport, mine);
    sent[r] = transport->bytes_sent();
  });
  float expected = 0;
  for (int i = 0; i < n; ++i) expected = 10 * expected + 1;
  const std::int64_t most = 4 * (std::bit_width(static_cast<unsigned>(n - 1)) + 1);
  for (std::size_t r = 0; r < sums.size(); ++r) {
    rd::require(sums[r] == expected, "of ", n, " ranks, rank ", r, " has the sum ", sums[r],
                " instead of ", expected);
    rd::require(sent[r] <= most, "of ", n, " ranks, rank ", r, " sends ", sent[r],
                " bytes; at most ", most, " are necessary");
  }
}

int run() {
  for (int n : {1, 2, 4, 3, 5, 6, 7}) check(n);
  std::cout << "all ranks have the sum, for one to seven ranks\n";
  return 0;
}

}  // namespace

int main() { return dist::run(run); }
