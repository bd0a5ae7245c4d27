// What each all-reduce sends for the gradients of the circle's net and of ResNet-20: messages and
// bytes of the busiest of eight ranks. Ranks are threads.
#include <rondo/rondo.h>

#include <algorithm>
#include <functional>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <thread>

#include "dist/collectives/algorithms/binomial_tree.h"
#include "dist/collectives/algorithms/direct.h"
#include "dist/collectives/algorithms/halving_doubling.h"
#include "dist/collectives/algorithms/recursive_doubling.h"

namespace rd = rondo;
namespace dist = rondo::dist;

namespace {

/// Passes all calls on, and counts the messages.
class Counting final : public dist::Transport {
 public:
  explicit Counting(dist::Transport& real) : real_(real) {}
  int rank() const override { return real_.rank(); }
  int world_size() const override { return real_.world_size(); }
  const char* name() const override { return "counting"; }
  dist::Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    ++messages;
    sent += bytes;
    return real_.send(peer, tag, data, bytes);
  }
  dist::Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    return real_.recv(peer, tag, data, bytes);
  }
  bool test(dist::Request& request) override { return real_.test(request); }
  void abandon(dist::Request& request) noexcept override { real_.abandon(request); }
  void abort(int status) noexcept override { real_.abort(status); }
  std::size_t messages = 0, sent = 0;

 private:
  dist::Transport& real_;
};

using Make = std::function<std::unique_ptr<dist::Operation>(dist::Transport&, dist::ChunkBuffer&,
                                                            float* data, std::int64_t count)>;

struct Sent {
  std::size_t messages = 0, bytes = 0;  // of the busiest rank
};

Sent sent(const Make& make, std::int64_t count) {
  constexpr int ranks = 8;
  std::mutex mutex;
  Sent most;
  dist::run_on_threads(ranks, [&](const std::shared_ptr<dist::Transport>& transport) {
    Counting counting(*transport);
    dist::ChunkBuffer scratch;
    std::vector<float> data(static_cast<std::size_t>(count), 1);
    const auto operation = make(counting, scratch, data.data(), count);
    while (operation->poll() != dist::Poll::done) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    rd::require(data.front() == ranks && data.back() == ranks, "the sum is wrong");
    most.messages = std::max(most.messages, counting.messages);
    most.bytes = std::max(most.bytes, counting.sent);
  });
  return most;
}

void show(const char* name, const Make& make) {
  std::cout << std::left << std::setw(10) << name << std::right << std::fixed
            << std::setprecision(2);
  for (const std::int64_t count : {162, 269'722}) {
    const Sent most = sent(make, count);
    std::cout << "  " << std::setw(8) << most.messages << std::setw(9) << most.bytes << std::setw(7)
              << static_cast<double>(most.bytes) / (4.0 * static_cast<double>(count));
  }
  std::cout << "\n";
}

}  // namespace

int main() {
  const auto sum = dist::ReduceOp::sum;
  std::cout << "            circle, 648 bytes         ResNet-20, 1,078,888 bytes\n"
            << "            messages    bytes  times  messages    bytes  times\n";
  show("direct", [&](auto& t, auto& s, float* data, std::int64_t n) {
    return direct_all_reduce(t, s, data, n, rd::f32, sum);
  });
  show("tree", [&](auto& t, auto& s, float* data, std::int64_t n) {
    return tree_all_reduce(t, s, data, n, rd::f32, sum);
  });
  show("doubling", [&](auto& t, auto& s, float* data, std::int64_t n) {
    return recursive_doubling_all_reduce(t, s, data, n, rd::f32, sum);
  });
  show("halving", [&](auto& t, auto& s, float* data, std::int64_t n) {
    return halving_doubling_all_reduce(t, s, data, n, rd::f32, sum);
  });
  show("ring", [&](auto& t, auto& s, float* data, std::int64_t n) {
    return ring_all_reduce(t, s, data, n, rd::f32, sum);
  });
}
