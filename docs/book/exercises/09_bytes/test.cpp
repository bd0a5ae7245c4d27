// How many bytes each rank sends in a ring all-reduce.
//
// start fails: of 5 ranks, rank 0 sends 76 bytes of 12 elements, not 64
#include <rondo/rondo.h>

#include <iostream>
#include <thread>
#include <vector>

namespace rd = rondo;
namespace dist = rondo::dist;

/// How many bytes `rank` sends when `world_size` ranks reduce `count` elements of four bytes. No
/// segment has more than 500,000 elements, so the ring has one block.
std::int64_t bytes_of_ring(int rank, int world_size, std::int64_t count);

namespace {

std::vector<std::int64_t> measure(int n, std::int64_t count) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(n));
  dist::run_on_threads(n, [&](const std::shared_ptr<dist::Transport>& transport) {
    std::vector<float> data(static_cast<std::size_t>(count), 1);
    dist::ChunkBuffer scratch;
    const auto ring = dist::ring_all_reduce(*transport, scratch, data.data(), count, rd::f32,
                                            dist::ReduceOp::sum);
    while (ring->poll() != dist::Poll::done) std::this_thread::yield();
    sent[static_cast<std::size_t>(transport->rank())] = transport->bytes_sent();
  });
  return sent;
}

int run() {
  for (const std::int64_t count : {12, 5, 1, 100'003}) {
    for (int n = 1; n <= 6; ++n) {
      const std::vector<std::int64_t> sent = measure(n, count);
      for (int r = 0; r < n; ++r) {
        const std::int64_t real = sent[static_cast<std::size_t>(r)],
                           said = bytes_of_ring(r, n, count);
        rd::require(said == real, "of ", n, " ranks, rank ", r, " sends ", real, " bytes of ",
                    count, " elements, not ", said);
      }
    }
  }
  std::cout << "the formula holds for every rank\n";
  return 0;
}

}  // namespace

int main() { return dist::run(run); }
