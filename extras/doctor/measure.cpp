#include "extras/doctor/measure.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "autograd/grad_mode.h"
#include "autograd/ops/matmul.h"
#include "dist/collectives/tuner.h"
#include "tensor/creation.h"

namespace rondo::doctor {
namespace {

using dist::Clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The median time of `work`. Runs it once to warm up, then for `seconds`, but at least three
/// times.
double time_of(double seconds, const std::function<void()>& work) {
  work();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 3 || seconds_since(begin) < seconds) {
    const auto once = Clock::now();
    work();
    times.push_back(seconds_since(once));
  }
  return median(times);
}

/// Half a round trip of `x` between two ranks. The first element says whether another round trip
/// follows: the leader decides, because the other rank cannot know when the time is over.
double half_round_trip(dist::Communicator& comm, const Tensor& x, int peer, bool leads,
                       double seconds) {
  constexpr int least = 5;
  auto* go_on = x.data_ptr<std::int64_t>();
  if (!leads) {
    do {
      comm.recv(x, peer);
      comm.send(x, peer);
    } while (*go_on == 1);
    return 0;
  }
  std::vector<double> halves;
  const auto begin = Clock::now();
  for (bool last = false; !last;) {
    last = halves.size() >= least && seconds_since(begin) >= seconds;
    *go_on = last ? 0 : 1;
    const auto once = Clock::now();
    comm.send(x, peer);
    comm.recv(x, peer);
    halves.push_back(seconds_since(once) / 2);
  }
  halves.erase(halves.begin());  // the first one makes the connections
  return median(halves);
}

}  // namespace

void measure_compute(Rank& rank, dist::Communicator& comm, double seconds) {
  constexpr std::int64_t n = 512;
  constexpr std::size_t bytes = std::size_t{32} << 20;
  const NoGradGuard no_grad;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Tensor a = ones({n, n}), b = ones({n, n});
  std::vector<char> from(bytes, 1), to(bytes, 2);
  comm.barrier();
  rank.gflops = 2.0 * n * n * n * 1e-9 / time_of(seconds / 2, [&] { matmul(a, b); });
  comm.barrier();
  rank.copy_gb_s =
      bytes * 1e-9 / time_of(seconds / 2, [&] { std::memcpy(to.data(), from.data(), bytes); });
  comm.barrier();
  omp_set_num_threads(threads);
}

std::vector<PairSpeed> measure_links(dist::Communicator& comm, double seconds) {
  const int n = comm.world_size(), me = comm.rank();
  if (n == 1) return {};
  constexpr std::int64_t large_bytes = 4 << 20;
  const Tensor small = zeros({1}, {.dtype = i64}), large = zeros({large_bytes / 8}, {.dtype = i64});
  const double each = seconds / (n * (n - 1.0) / 2) / 2;
  std::vector<PairSpeed> links;
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      comm.barrier();  // one pair at a time
      PairSpeed link{a, b};
      if (me == a || me == b) {
        const int peer = me == a ? b : a;
        link.latency_us = half_round_trip(comm, small, peer, me == a, each) * 1e6;
        const double half = half_round_trip(comm, large, peer, me == a, each);
        if (me == a) link.gb_s = large_bytes * 1e-9 / half;
      }
      links.push_back(link);
    }
  }
  // The first rank of each pair has the numbers, the others have zeros.
  const Tensor all = zeros({static_cast<std::int64_t>(links.size()), 2}, {.dtype = f64});
  auto* numbers = all.data_ptr<double>();
  for (std::size_t i = 0; i < links.size(); ++i) {
    numbers[2 * i] = links[i].latency_us;
    numbers[2 * i + 1] = links[i].gb_s;
  }
  comm.all_reduce(all);
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i].latency_us = numbers[2 * i];
    links[i].gb_s = numbers[2 * i + 1];
  }
  return links;
}

std::vector<AllReduceTime> measure_all_reduces(dist::Communicator& comm, double seconds) {
  if (comm.world_size() == 1) return {};
  const bool shared = comm.shares_memory();
  dist::Tuner tuner(comm, "");
  std::vector<AllReduceTime> all;
  for (const std::int64_t bytes :
       {std::int64_t{4}, std::int64_t{64} << 10, std::int64_t{16} << 20}) {
    const Tensor x = zeros({bytes / 4});
    const auto size = static_cast<std::size_t>(bytes);
    if (!shared) tuner.learn(size);
    const dist::AllReduce way = shared ? dist::AllReduce::shared : *tuner.fastest(size);
    auto once = [&] {
      const auto begin = Clock::now();
      if (shared)
        comm.all_reduce(x);
      else
        comm.all_reduce_async(x, dist::ReduceOp::sum, way).wait();
      return seconds_since(begin);
    };
    once();
    // All ranks must do it equally often: as often as the slowest has time for.
    const Tensor slowest = scalar(once(), {.dtype = f64});
    comm.all_reduce(slowest, dist::ReduceOp::max);
    const int times =
        static_cast<int>(std::clamp(seconds / 3 / slowest.item<double>(), 3.0, 10000.0));
    std::vector<double> measured;
    for (int i = 0; i < times; ++i) measured.push_back(once());
    const Tensor time = scalar(median(measured), {.dtype = f64});
    comm.all_reduce(time, dist::ReduceOp::max);
    all.push_back({bytes, dist::name_of(way), time.item<double>() * 1e6});
  }
  return all;
}

}  // namespace rondo::doctor
