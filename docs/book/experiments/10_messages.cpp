// What each all-reduce sends: messages and bytes of the busiest rank, for eight ranks. Ranks are
// threads.
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

void show(const char* name, const Make& make) {
  constexpr int ranks = 8;
  constexpr std::int64_t count = 1024;  // 4 KiB
  std::mutex mutex;
  std::size_t messages = 0, bytes = 0, all_messages = 0;
  dist::run_on_threads(ranks, [&](const std::shared_ptr<dist::Transport>& transport) {
    Counting counting(*transport);
    dist::ChunkBuffer scratch;
    std::vector<float> data(count, 1);
    const auto operation = make(counting, scratch, data.data(), count);
    while (operation->poll() != dist::Poll::done) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    rd::require(data[0] == ranks && data[count - 1] == ranks, name, " gives a wrong sum");
    messages = std::max(messages, counting.messages);
    bytes = std::max(bytes, counting.sent);
    all_messages += counting.messages;
  });
  std::cout << std::left << std::setw(10) << name << std::right << std::setw(8) << messages
            << std::setw(10) << std::fixed << std::setprecision(2)
            << static_cast<double>(bytes) / (4.0 * count) << std::setw(12) << all_messages << "\n";
}

}  // namespace

int main() {
  const auto sum = dist::ReduceOp::sum;
  std::cout << "8 ranks      the busiest rank   all ranks\n"
            << "          sends    times its      send\n"
            << "          messages      data  messages\n";
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
