// Ranks whose buckets become full in different orders.
//
// start fails: has waited two seconds in the all-reduce of bucket
#include <rondo/rondo.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
namespace dist = rondo::dist;

namespace {

using Order = std::vector<std::size_t>;

/// Requests that end with their scope: then the memory of their messages may end, too.
struct Posted {
  dist::Transport& transport;
  std::vector<dist::Request> requests;
  ~Posted() {
    for (dist::Request& request : requests) transport.abandon(request);
  }
  bool are_complete() {
    return std::ranges::all_of(requests, [&](dist::Request& r) { return transport.test(r); });
  }
};

/// Every rank sends its value to every other. The bucket is the tag of the messages.
float all_reduce(dist::Transport& transport, std::size_t bucket, float value) {
  const int n = transport.world_size(), tag = static_cast<int>(bucket);
  std::vector<float> values(static_cast<std::size_t>(n));
  Posted posted{transport, {}};
  for (int peer = 0; peer < n; ++peer) {
    if (peer == transport.rank()) continue;
    posted.requests.push_back(transport.send(peer, tag, &value, sizeof value));
    posted.requests.push_back(
        transport.recv(peer, tag, &values[static_cast<std::size_t>(peer)], sizeof value));
  }
  const auto deadline = dist::Clock::now() + std::chrono::seconds(2);
  while (!posted.are_complete()) {
    rd::require<rd::CommError>(dist::Clock::now() < deadline, "rank ", transport.rank(),
                               " has waited two seconds in the all-reduce of bucket ", bucket);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  float sum = value;
  for (const float other : values) sum += other;
  return sum;
}

/// The launches after each bucket of `order` has become full.
std::vector<Order> launches(const Order& order) {
  std::vector<Order> all;
  Buckets buckets{.is_full = std::vector<bool>(order.size()),
                  .launch = [&](std::size_t bucket) { all.back().push_back(bucket); }};
  for (const std::size_t bucket : order) {
    all.emplace_back();
    bucket_is_full(buckets, bucket);
  }
  return all;
}

/// One backward on several ranks; orders[r] is the order in which rank r's buckets become full. The
/// all-reduces run one after another, in the order in which they were launched.
void backward(const std::vector<Order>& orders) {
  const auto n = static_cast<int>(orders.size());
  dist::run_on_threads(n, [&](const std::shared_ptr<dist::Transport>& transport) {
    const Order& order = orders[static_cast<std::size_t>(transport->rank())];
    std::vector<float> gradients(order.size());
    for (std::size_t b = 0; b < order.size(); ++b)
      gradients[b] = static_cast<float>(100 * transport->rank()) + static_cast<float>(b);
    std::size_t launched = 0;
    for (const Order& now : launches(order)) {
      for (const std::size_t b : now) {
        gradients[b] = all_reduce(*transport, b, gradients[b]);
        ++launched;
      }
    }
    rd::require(launched == order.size(), "rank ", transport->rank(), " launched ", launched,
                " buckets of ", order.size());
    for (std::size_t b = 0; b < order.size(); ++b) {
      const auto sum =
          static_cast<float>(50 * n * (n - 1)) + static_cast<float>(n) * static_cast<float>(b);
      rd::require(gradients[b] == sum, "bucket ", b, " holds ", gradients[b], " instead of ", sum);
    }
  });
}

int run() {
  backward({{0, 1, 2}, {0, 1, 2}});
  backward({{0, 1, 2}, {1, 0, 2}});
  std::mt19937 random(1);
  for (int n : {2, 3, 4}) {
    std::vector<Order> orders(static_cast<std::size_t>(n), {0, 1, 2, 3, 4, 5});
    for (Order& order : orders) std::ranges::shuffle(order, random);
    backward(orders);
  }
  // A bucket must not wait longer than necessary.
  rd::require(
      launches({1, 0, 2}) == std::vector<Order>{{}, {0, 1}, {2}},
      "buckets 1, 0 and 2 become full in this order; expected launches of nothing, of 0 and "
      "1, and of 2");
  std::cout << "all ranks launch in the same order, as early as possible\n";
  return 0;
}

}  // namespace

int main() { return dist::run(run); }
