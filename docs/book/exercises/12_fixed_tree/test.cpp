// A sum of 16 values on 1, 2, 4, 8 and 16 ranks.
//
// start fails: the sum of 2 ranks has other bits than that of 1 rank
#include <rondo/rondo.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
namespace dist = rondo::dist;

float exchange(dist::Transport& transport, int peer, float value) {
  float received = 0;
  dist::Request in = transport.recv(peer, 1, &received, sizeof received);
  dist::Request out = transport.send(peer, 1, &value, sizeof value);
  const auto deadline = dist::Clock::now() + std::chrono::seconds(5);
  while (!transport.test(in) || !transport.test(out)) {
    if (dist::Clock::now() < deadline) {
      std::this_thread::yield();
      continue;
    }
    transport.abandon(in);
    transport.abandon(out);
    throw rd::CommError(rd::concat("rank ", transport.rank(),
                                   " has waited five seconds for a value of rank ", peer));
  }
  return received;
}

namespace {

/// Each rank's sum.
std::vector<float> sums(int n, const std::vector<float>& values) {
  std::vector<float> all(static_cast<std::size_t>(n));
  const std::size_t share = values.size() / static_cast<std::size_t>(n);
  dist::run_on_threads(n, [&](const std::shared_ptr<dist::Transport>& transport) {
    const auto r = static_cast<std::size_t>(transport->rank());
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(r * share);
    all[r] = sum_of_all(*transport, {first, first + static_cast<std::ptrdiff_t>(share)});
    const auto most = std::int64_t{4} * std::countr_zero(static_cast<unsigned>(n));
    rd::require(transport->bytes_sent() == most, "of ", n, " ranks, rank ", r, " sent ",
                transport->bytes_sent(), " bytes instead of ", most);
  });
  return all;
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

int run() {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> values;
    double exact = 0, size = 0;
    for (int i = 0; i < 16; ++i) {
      values.push_back(
          std::ldexp(static_cast<float>(random()) / 4e9F - 0.5F, static_cast<int>(random() % 8)));
      exact += values.back();
      size += std::abs(values.back());
    }
    const float alone = sums(1, values)[0];
    rd::require(std::abs(alone - exact) < 1e-5 * size, "the sum is ", alone, " instead of ", exact);
    for (int n : {2, 4, 8, 16})
      for (const float sum : sums(n, values))
        rd::require(bits(sum) == bits(alone), "the sum of ", n,
                    " ranks has other bits than that of 1 rank");
  }
  std::cout << "1, 2, 4, 8 and 16 ranks have equal bits\n";
  return 0;
}

}  // namespace

int main() { return dist::run(run); }
