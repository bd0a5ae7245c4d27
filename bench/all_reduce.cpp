// all_reduce: compares rondo's all-reduce with MPI's or NCCL's, in turns.
//
//   mpirun -np 2 build/bin/all_reduce --min-bytes 4 --max-bytes 268435456
//   mpirun -np 4 build/bin/all_reduce --device cuda
//
// How it measures:
//
// - Sizes quadruple from --min-bytes to --max-bytes.
// - At each size the algorithms take turns, so that other load on the machine affects all alike.
//   Each round has another order, since each algorithm leaves its memory in the caches.
// - Every buffer is written again before each call.
// - A time is from a barrier to the end of the slowest rank; the table has the median.
// - Bus bandwidth is 2 (n - 1) / n * S / t. Any algorithm must send at least 2 (n - 1) / n * S over
//   each link, so numbers for different n can be compared.
//
// The algorithms:
//
//   auto          Communicator::all_reduce: shared memory if the ranks are on one machine,
//   otherwise
//                 the algorithm below that the tuner measured to be the fastest
//   auto_own      the same for a tensor in memory from Communicator::allocate
//   direct, tree, doubling, halving, pairwise, ring, hierarchical
//                 rondo's algorithms over messages (dist/collectives/algorithms); the first two
//                 only for small buffers
//   mpi           MPI_Allreduce, called as any program calls it
//   mpi_in_place  MPI_Allreduce with MPI_IN_PLACE; rondo is compared with the faster of the two
//   mpi_polled    MPI_Iallreduce, polled, which Communicator offers as AllReduce::mpi
//
// "sent" is the number of bytes that the busiest rank hands to its transport in one call: those of
// the algorithm, and 96 by which the ranks check that all call the same collective. Shared memory
// and MPI's own algorithms send none.
//
// "of bound" compares the bandwidth with that of the same messages without computing: both
// neighbours of a ring send up to 4 MiB at a time. It does not limit shared memory.
//
// --algorithms a,b measures only these. The buffers of all other algorithms would evict the
// compared buffers from the caches, and the time would be that of the memory.
// --messages makes ranks of one machine use messages, as if they were on several machines.
//
// With --device cuda the buffers are on the ranks' GPUs:
//
//   ring          rondo's ring over NCCL's messages
//   nccl          ncclAllReduce, with which rondo is compared
//   mpi           only with --all-reduce mpi, and then alone: through pinned memory of the host

#ifdef RONDO_BENCH_MPI
#include <mpi.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "dist/launch/device.h"
#include "dist/launch/init.h"
#include "dist/launch/threads.h"
#include "extras/command_line.h"
#include "report.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/error.h"

using namespace rondo;

namespace {

struct Options {
  std::int64_t min_bytes = 1 << 20, max_bytes = std::int64_t{128} << 20;
  int repeat = 0;
  int chunk_kib = 0, chunks = 0, window = 0;
  std::string device = "cpu", all_reduce;
  bool messages = false;
  std::vector<std::string> algorithms;
  std::string json;
};

/// Sums `x` over the ranks; an algorithm that does not work in place writes to `out`.
struct Algorithm {
  std::string name;
  std::function<void(const Tensor& x, const Tensor& out)> run;
  dist::Communicator* comm = nullptr;  // which sends; null: MPI itself
  bool in_own_memory = false;          // `x` is from Communicator::allocate
  std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();
};

void check_sum(const Algorithm& algorithm, const Tensor& x, double want) {
  const Tensor host = x.to(Device::cpu());
  const double first = host[0].item(), last = host[x.numel() - 1].item();
  require(first == want && last == want, algorithm.name, ": the sum is ", first, " … ", last,
          ", expected ", want);
}

double seconds_once(dist::Communicator& comm, const Algorithm& algorithm, const Tensor& x,
                    const Tensor& out) {
  x.fill_(comm.rank() + 1.0);
  if (x.device().is_cuda()) cuda::synchronize(x.device().index);
  comm.barrier();
  const auto begin = dist::Clock::now();
  algorithm.run(x, out);
  if (x.device().is_cuda()) cuda::synchronize(x.device().index);
  const double mine = std::chrono::duration<double>(dist::Clock::now() - begin).count();
  const Tensor slowest = scalar(mine, {.dtype = f64});
  comm.all_reduce(slowest, dist::ReduceOp::max);
  return slowest.item<double>();
}

/// The bytes that the busiest rank sends in one call.
double bytes_once(dist::Communicator& comm, const Algorithm& algorithm, const Tensor& x,
                  const Tensor& out) {
  if (algorithm.comm == nullptr) return 0;
  comm.barrier();
  const std::int64_t before = algorithm.comm->transport().bytes_sent();
  algorithm.run(x, out);
  const Tensor most = scalar(static_cast<double>(algorithm.comm->transport().bytes_sent() - before),
                             {.dtype = f64});
  comm.all_reduce(most, dist::ReduceOp::max);
  return most.item();
}

std::vector<Algorithm> algorithms_of(dist::Communicator& comm, const Options& options,
                                     Device device, dist::InitOptions init) {
  // Each algorithm has its own communicator and is called as programs call it.
  auto named = [&](const char* name, dist::AllReduce kind) {
    init.communicator.all_reduce = kind;
    auto own = dist::init(init);
    if (device.is_cuda()) dist::use_device(*own, options.device);
    return Algorithm{name, [own](const Tensor& x, const Tensor&) { own->all_reduce(x); },
                     own.get()};
  };
  if (device.is_cuda()) {
    if (options.all_reduce == "mpi") return {named("mpi", dist::AllReduce::mpi)};
    return {named("ring", dist::AllReduce::ring), named("nccl", dist::AllReduce::nccl)};
  }
  auto blocking = [&comm](const Tensor& x, const Tensor&) { comm.all_reduce(x); };
  std::vector<Algorithm> all = {{"auto", blocking, &comm}, {"auto_own", blocking, &comm, true}};
  using enum dist::AllReduce;
  for (dist::AllReduce algorithm : {direct, tree, recursive_doubling, halving_doubling, pairwise,
                                    dist::AllReduce::ring, hierarchical})
    all.push_back(named(dist::name_of(algorithm), algorithm));
  for (Algorithm& algorithm : all) {
    if (algorithm.name == "direct" || algorithm.name == "tree") algorithm.most_bytes = 2 << 20;
  }
#ifdef RONDO_BENCH_MPI
  if (std::string(comm.backend()) == "mpi") {
    all.push_back({"mpi", [](const Tensor& x, const Tensor& out) {
                     MPI_Allreduce(x.data_ptr(), out.data_ptr(), static_cast<int>(x.numel()),
                                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                   }});
    all.push_back({"mpi_in_place", [](const Tensor& x, const Tensor&) {
                     MPI_Allreduce(MPI_IN_PLACE, x.data_ptr(), static_cast<int>(x.numel()),
                                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                   }});
    all.push_back(named("mpi_polled", dist::AllReduce::mpi));
  }
#endif
  return all;
}

/// The speed of an algorithm relative to the faster one of MPI's two, or to NCCL; 0 if neither ran.
double over_library(const std::map<std::string, double>& seconds, const std::string& name) {
  double best = std::numeric_limits<double>::infinity();
  for (const char* rival : {"mpi", "mpi_in_place", "nccl"}) {
    if (seconds.contains(rival)) best = std::min(best, seconds.at(rival));
  }
  return std::isinf(best) ? 0 : best / seconds.at(name);
}

/// The most bytes per second that each rank sends to the next and receives from the previous.
double link_bytes_per_second(dist::Communicator& comm, Device device, std::int64_t most_bytes) {
  const int n = comm.world_size(), next = (comm.rank() + 1) % n,
            previous = (comm.rank() + n - 1) % n;
  if (n == 1) return std::numeric_limits<double>::infinity();
  const std::int64_t numel = std::clamp<std::int64_t>(most_bytes / 4, 1 << 10, 1 << 20);
  const Tensor out = zeros({numel}, {.device = device}), in = zeros({numel}, {.device = device});
  constexpr int messages = 4;
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    comm.barrier();
    const auto begin = dist::Clock::now();
    for (int k = 0; k < messages; ++k) {
      dist::Work receive = comm.recv_async(in, previous), send = comm.send_async(out, next);
      receive.wait();
      send.wait();
    }
    if (device.is_cuda()) cuda::synchronize(device.index);
    const Tensor seconds =
        scalar(std::chrono::duration<double>(dist::Clock::now() - begin).count(), {.dtype = f64});
    comm.all_reduce(seconds, dist::ReduceOp::max);
    best = std::max(best, messages * static_cast<double>(out.nbytes()) / seconds.item<double>());
  }
  return best;
}

nlohmann::json measure(dist::Communicator& comm, const Options& options, Device device,
                       const dist::InitOptions& init, double link, bool print) {
  std::vector<Algorithm> algorithms = algorithms_of(comm, options, device, init);
  for (const std::string& name : options.algorithms)
    require(std::ranges::count(algorithms, name, &Algorithm::name) > 0, "--algorithms ", name,
            ": unknown algorithm; --help lists them");
  if (!options.algorithms.empty())
    std::erase_if(algorithms, [&](const Algorithm& a) {
      return std::ranges::count(options.algorithms, a.name) == 0;
    });
  nlohmann::json rows = nlohmann::json::array();
  const double n = comm.world_size();
  if (print)
    std::printf("%12s  %-12s %12s %12s %10s %9s %14s\n", "bytes", "algorithm", "sent", "us",
                "bus GB/s", "of bound", "over library");
  for (std::int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 4) {
    const std::int64_t numel = std::max<std::int64_t>(1, bytes / 4);
    comm.tune(static_cast<std::size_t>(numel) * 4);
    const Tensor priv = zeros({numel}, {.device = device}),
                 out = zeros({numel}, {.device = device});
    const Tensor own = comm.empty({numel}, {.device = device});
    const int usual = bytes < (1 << 20) ? 301 : bytes < (16 << 20) ? 61 : 15;
    const int repeat = options.repeat > 0 ? options.repeat : usual;
    std::vector<std::vector<double>> times(algorithms.size());
    std::vector<double> sent(algorithms.size());
    std::vector<std::size_t> order(algorithms.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(1);              // the same order on all ranks
    for (int i = -2; i < repeat; ++i) {  // two rounds to warm up
      std::ranges::shuffle(order, random);
      for (std::size_t a : order) {
        if (bytes > algorithms[a].most_bytes) continue;
        const Tensor& x = algorithms[a].in_own_memory ? own : priv;
        const double t = seconds_once(comm, algorithms[a], x, out);
        if (i == -2) {
          const bool is_in_place = algorithms[a].comm != nullptr || algorithms[a].name != "mpi";
          check_sum(algorithms[a], is_in_place ? x : out, n * (n + 1) / 2);
          sent[a] = bytes_once(comm, algorithms[a], x, out);
        }
        if (i >= 0) times[a].push_back(t);
      }
    }
    std::map<std::string, double> seconds;
    for (std::size_t a = 0; a < algorithms.size(); ++a) {
      if (!times[a].empty()) seconds[algorithms[a].name] = bench::median(times[a]);
    }
    for (std::size_t a = 0; a < algorithms.size(); ++a) {
      const Algorithm& algorithm = algorithms[a];
      if (!seconds.contains(algorithm.name)) continue;
      const double t = seconds.at(algorithm.name);
      const double bandwidth = 2 * (n - 1) / n * static_cast<double>(numel * 4) / t * 1e-9;
      const double ratio = over_library(seconds, algorithm.name);
      rows.push_back({{"algorithm", algorithm.name},
                      {"bytes", numel * 4},
                      {"sent", sent[a]},
                      {"seconds", t},
                      {"bus_gb_s", bandwidth},
                      {"of_bound", bandwidth * 1e9 / link},
                      {"over_library", ratio}});
      if (!print) continue;
      std::printf("%12lld  %-12s %12.0f %12.2f %10.2f %8.0f%%", static_cast<long long>(numel * 4),
                  algorithm.name.c_str(), sent[a], t * 1e6, bandwidth, bandwidth * 1e11 / link);
      ratio > 0 ? std::printf("  %11.2fx\n", ratio) : std::printf("\n");
    }
  }
  return rows;
}

int program(int argc, char** argv) {
  flags::CommandLine app("Compares rondo's all-reduce with MPI's or NCCL's");
  Options options;
  const flags::Check bytes = flags::whole_number(1, std::uint64_t{1} << 40),
                     number = flags::whole_number(0, 1'000'000'000);
  app.add("--min-bytes", options.min_bytes,
          "smallest buffer (default: 1 MiB, or --max-bytes if that is less)", bytes);
  app.add("--max-bytes", options.max_bytes, "largest buffer", bytes);
  app.add("--repeat", options.repeat, "repetitions (0: by size)", number);
  app.add("--chunk-kib", options.chunk_kib, "the ring's largest message; 0: default", number);
  app.add("--chunks", options.chunks, "chunks of a segment; 0: default", number);
  app.add("--window", options.window, "chunks in flight; 0: default", number);
  app.add("--device", options.device, "device of the buffers: cpu or cuda");
  app.add("--messages", options.messages, "ranks of one machine share no memory");
  app.add("--all-reduce", options.all_reduce, "how GPUs communicate (default: nccl)",
          flags::one_of({"nccl", "mpi"}));
  app.add("--algorithms", options.algorithms,
          "measure only these: auto, auto_own, direct, tree, doubling, halving, pairwise, ring, "
          "hierarchical, mpi, mpi_in_place, mpi_polled; on GPUs ring, nccl, mpi");
  app.add("--json", options.json, "write the rows to FILE; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  dist::InitOptions init;
  dist::RingOptions& ring = init.communicator.ring;
  if (options.chunk_kib > 0) ring.chunk_bytes = static_cast<std::size_t>(options.chunk_kib) << 10;
  if (options.chunks > 0) ring.chunks_per_segment = options.chunks;
  if (options.window > 0) ring.window = options.window;
  if (options.all_reduce == "mpi") init.communicator.all_reduce = dist::AllReduce::mpi;
  init.share_memory = !options.messages;
  auto comm = dist::init(init);
  std::string arguments;
  for (int i = 1; i < argc; ++i) arguments += concat(i > 1 ? " " : "", argv[i]);
  comm->agree("the arguments", arguments);
  if (comm->rank() == 0) io::check_result_file("--json", options.json);
  dist::use_threads(*comm);  // otherwise the threads that fill buffers compete for the cores
  require(options.all_reduce.empty() || options.device != "cpu", "--all-reduce ",
          options.all_reduce, " needs --device cuda");
  const Device device = dist::use_device(*comm, options.device);
  if (!app.given("--min-bytes")) options.min_bytes = std::min(options.min_bytes, options.max_bytes);
  require(options.min_bytes <= options.max_bytes, "--max-bytes ", options.max_bytes,
          " is below --min-bytes ", options.min_bytes);
  bool print = comm->rank() == 0 && options.json != "-";
  if (print)
    std::printf("%d ranks, backend %s, buffers on %s\n", comm->world_size(), comm->backend(),
                options.device.c_str());
  const double link = link_bytes_per_second(*comm, device, options.max_bytes);
  if (print) std::printf("messages between neighbours: %.2f GB/s each way\n", link * 1e-9);
  nlohmann::json result = {{"world_size", comm->world_size()},
                           {"device", options.device},
                           {"link_gb_s", link * 1e-9},
                           {"rows", measure(*comm, options, device, init, link, print)}};
  if (comm->rank() == 0) bench::write_json(result, options.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] { return program(argc, argv); });
}
