// A ring reduce-scatter between threads.
//
// start fails: of 3 ranks, rank 0 holds 1 in segment 1 instead of 111
#include <rondo/rondo.h>

#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
namespace dist = rondo::dist;

void wait(dist::Transport& transport, dist::Request request) {
  const auto deadline = dist::Clock::now() + std::chrono::seconds(5);
  while (!transport.test(request)) {
    rd::require<rd::CommError>(dist::Clock::now() < deadline, "rank ", transport.rank(),
                               " has waited five seconds for a message");
    std::this_thread::yield();
  }
}

namespace {

void check(int n) {
  constexpr std::size_t length = 3;
  std::vector<std::vector<float>> data;  // of each rank: 10^rank everywhere
  float sum = 0;
  for (int r = 0, value = 1; r < n; ++r, value *= 10) {
    data.emplace_back(static_cast<std::size_t>(n) * length, static_cast<float>(value));
    sum += static_cast<float>(value);
  }
  std::vector<std::int64_t> sent(static_cast<std::size_t>(n));
  dist::run_on_threads(n, [&](const std::shared_ptr<dist::Transport>& transport) {
    const auto r = static_cast<std::size_t>(transport->rank());
    reduce_scatter(*transport, data[r].data(), length);
    sent[r] = transport->bytes_sent();
  });
  for (int r = 0; r < n; ++r) {
    const int segment = (r + 1) % n;
    for (std::size_t i = 0; i < length; ++i) {
      const float held =
          data[static_cast<std::size_t>(r)][static_cast<std::size_t>(segment) * length + i];
      rd::require(held == sum, "of ", n, " ranks, rank ", r, " holds ", held, " in segment ",
                  segment, " instead of ", sum);
    }
    const auto expected = static_cast<std::int64_t>((n - 1) * length * sizeof(float));
    rd::require(sent[static_cast<std::size_t>(r)] == expected, "of ", n, " ranks, rank ", r,
                " sent ", sent[static_cast<std::size_t>(r)], " bytes instead of ", expected);
  }
}

int run() {
  for (int n : {1, 2, 3, 4, 7}) check(n);
  std::cout << "each rank holds its sum, and sent N - 1 segments\n";
  return 0;
}

}  // namespace

int main() { return dist::run(run); }
