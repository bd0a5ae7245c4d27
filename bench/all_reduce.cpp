// all_reduce: the own ring against MPI's all-reduce or NCCL's, on the same buffers, in turns.
//
//   mpirun -np 2 build/bin/all_reduce --min-bytes 1048576 --max-bytes 134217728
//   mpirun -np 4 build/bin/all_reduce --device cuda
//
// Sizes double from --min-bytes to --max-bytes. At each size the algorithms take turns, so that
// whatever else the machine does hits all alike; a time is from a barrier to the end of the slowest
// rank, the median of the repetitions. Bus bandwidth is 2 (n - 1) / n * S / t: what each link must
// carry at least, whatever the algorithm, so that numbers of different n compare.
//
//   ring          rondo's ring over MPI point-to-point
//   doubling      rondo's recursive doubling, for small buffers
//   mpi           MPI_Allreduce, blocking: what most programs call, and the one to beat
//   mpi_polled    MPI_Iallreduce, polled: what Communicator offers as AllReduce::mpi
//
// With --device cuda the buffers lie on the ranks' GPUs:
//
//   ring          rondo's ring over NCCL's messages
//   nccl          ncclAllReduce: the one to beat
//   mpi           with --all-reduce mpi, and then alone: by way of pinned memory of the host

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "dist/device.h"
#include "dist/init.h"
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
  std::string json;
};

struct Algorithm {
  const char* name;
  dist::AllReduce kind;
};

double seconds_once(dist::Communicator& comm, const Tensor& x, dist::AllReduce kind) {
  comm.barrier();
  auto begin = dist::Clock::now();
  comm.all_reduce_async(x, dist::ReduceOp::sum, kind).wait();
  if (x.device().is_cuda()) cuda::synchronize(x.device().index);
  double mine = std::chrono::duration<double>(dist::Clock::now() - begin).count();
  Tensor slowest = scalar(mine, {.dtype = f64});
  comm.all_reduce(slowest, dist::ReduceOp::max);
  return slowest.item<double>();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json measure(dist::Communicator& comm, const Options& options, Device device,
                       bool print) {
  std::vector<Algorithm> algorithms = {{"ring", dist::AllReduce::ring}};
  if (device.is_cuda()) {
    if (options.all_reduce == "mpi")
      algorithms = {{"mpi", dist::AllReduce::mpi}};
    else
      algorithms.push_back({"nccl", dist::AllReduce::nccl});
  } else {
    algorithms.push_back({"doubling", dist::AllReduce::recursive_doubling});
  }
  if (!device.is_cuda() && std::string(comm.backend()) == "mpi") {
    algorithms.push_back({"mpi", dist::AllReduce::mpi_blocking});
    algorithms.push_back({"mpi_polled", dist::AllReduce::mpi});
  }
  nlohmann::json rows = nlohmann::json::array();
  double n = comm.world_size();
  if (print)
    std::printf("%12s  %-11s %11s %10s  %s is\n", "bytes", "algorithm", "ms", "bus GB/s",
                algorithms[0].name);
  for (std::int64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    Tensor x = zeros({std::max<std::int64_t>(1, bytes / 4)}, {.device = device});
    int repeat = options.repeat > 0 ? options.repeat : bytes < (1 << 20) ? 101 : 15;
    std::vector<std::vector<double>> times(algorithms.size());
    for (int i = -2; i < repeat; ++i) {  // two rounds to warm up
      for (std::size_t a = 0; a < algorithms.size(); ++a) {
        double t = seconds_once(comm, x, algorithms[a].kind);
        if (i >= 0) times[a].push_back(t);
      }
    }
    double ring = median(times[0]);
    for (std::size_t a = 0; a < algorithms.size(); ++a) {
      double t = median(times[a]);
      double bandwidth = 2 * (n - 1) / n * static_cast<double>(x.nbytes()) / t * 1e-9;
      rows.push_back({{"algorithm", algorithms[a].name},
                      {"bytes", x.nbytes()},
                      {"seconds", t},
                      {"bus_gb_s", bandwidth}});
      if (!print) continue;
      std::printf("%12lld  %-11s %11.3f %10.2f", static_cast<long long>(x.nbytes()),
                  algorithms[a].name, t * 1e3, bandwidth);
      std::printf(a == 0 ? "\n" : "  %.2fx as fast\n", t / ring);
    }
  }
  return rows;
}

int program(int argc, char** argv) {
  CLI::App app("rondo's ring all-reduce against MPI's");
  Options options;
  app.add_option("--min-bytes", options.min_bytes, "smallest buffer")->check(CLI::PositiveNumber);
  app.add_option("--max-bytes", options.max_bytes, "largest buffer")->check(CLI::PositiveNumber);
  app.add_option("--repeat", options.repeat, "repetitions (default: by size)");
  app.add_option("--chunk-kib", options.chunk_kib, "the ring's largest message");
  app.add_option("--chunks", options.chunks, "chunks of a segment");
  app.add_option("--window", options.window, "chunks in flight");
  app.add_option("--device", options.device, "where the buffers lie: cpu or cuda");
  app.add_option("--all-reduce", options.all_reduce, "how GPUs talk (default: nccl)")
      ->check(CLI::IsMember({"nccl", "mpi"}));
  app.add_option("--json", options.json, "write the rows to FILE; - is standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  dist::InitOptions init;
  dist::RingOptions& ring = init.communicator.ring;
  if (options.chunk_kib > 0) ring.chunk_bytes = static_cast<std::size_t>(options.chunk_kib) << 10;
  if (options.chunks > 0) ring.chunks_per_segment = options.chunks;
  if (options.window > 0) ring.window = options.window;
  if (options.all_reduce == "mpi") init.communicator.all_reduce = dist::AllReduce::mpi;
  auto comm = dist::init(init);
  std::string arguments;
  for (int i = 1; i < argc; ++i) arguments += concat(i > 1 ? " " : "", argv[i]);
  comm->agree("the arguments", arguments);
  require(options.all_reduce.empty() || options.device != "cpu", "--all-reduce ",
          options.all_reduce, " says how GPUs talk: it needs --device cuda");
  const Device device = dist::use_device(*comm, options.device);
  require(options.min_bytes <= options.max_bytes, "--max-bytes ", options.max_bytes,
          " is below --min-bytes ", options.min_bytes);
  bool print = comm->rank() == 0 && options.json != "-";
  if (print)
    std::printf("%d ranks, backend %s, buffers on %s\n", comm->world_size(), comm->backend(),
                options.device.c_str());
  nlohmann::json result = {{"world_size", comm->world_size()},
                           {"device", options.device},
                           {"rows", measure(*comm, options, device, print)}};
  if (comm->rank() == 0) bench::write_json(result, options.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] { return program(argc, argv); });
}
