// all_reduce: runs rondo's algorithms, unchanged, on a cluster that SimGrid simulates.
//
//   smpirun … simulated_all_reduce RANKS_PER_NODE MEMORY_GB_S ALGORITHM BYTES [ALGORITHM BYTES …]
//
// Prints "ALGORITHM BYTES SECONDS" for each: simulated seconds, from a barrier to the end of the
// slowest rank. bench/simgrid/scaling.py makes the clusters and starts this program.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "dist/collectives/algorithms/binomial_tree.h"
#include "dist/collectives/algorithms/halving_doubling.h"
#include "dist/collectives/algorithms/hierarchical.h"
#include "dist/collectives/algorithms/recursive_doubling.h"
#include "dist/collectives/algorithms/ring_all_reduce.h"
#include "smpi_transport.h"
#include "tensor/printable.h"

namespace rondo::simgrid {
namespace {

/// Memory that all simulated ranks share. Its contents do not matter.
class SharedMemory final : public dist::ChunkBuffer {
 public:
  SharedMemory() = default;
  ~SharedMemory() override { release(); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  char* reserve(std::size_t bytes) override {
    if (bytes > bytes_) {
      release();
      data_ = static_cast<char*>(SMPI_SHARED_MALLOC(bytes));
      bytes_ = bytes;
    }
    return data_;
  }

 private:
  void release() {
    if (data_ != nullptr) SMPI_SHARED_FREE(data_);
    data_ = nullptr;
  }
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

std::unique_ptr<dist::Operation> make(const std::string& algorithm, dist::Transport& transport,
                                      dist::ChunkBuffer& scratch, void* data, std::int64_t count,
                                      int ranks_per_node) {
  const auto sum = dist::ReduceOp::sum;
  if (algorithm == "ring") return ring_all_reduce(transport, scratch, data, count, f32, sum);
  if (algorithm == "doubling")
    return recursive_doubling_all_reduce(transport, scratch, data, count, f32, sum);
  if (algorithm == "halving")
    return halving_doubling_all_reduce(transport, scratch, data, count, f32, sum);
  if (algorithm == "tree") return tree_all_reduce(transport, scratch, data, count, f32, sum);
  if (algorithm != "hierarchical")
    throw std::runtime_error("unknown algorithm " + algorithm +
                             "; there are ring, doubling, halving, tree, hierarchical");
  std::vector<int> node_of;
  for (int r = 0; r < transport.world_size(); ++r) node_of.push_back(r / ranks_per_node);
  return hierarchical_all_reduce(transport, scratch, data, count, f32, sum, node_of);
}

double seconds_of(const std::string& algorithm, std::size_t bytes, SmpiTransport& transport,
                  int ranks_per_node) {
  SharedMemory data, scratch;
  const auto operation = make(algorithm, transport, scratch, data.reserve(bytes),
                              static_cast<std::int64_t>(bytes / 4), ranks_per_node);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  while (true) {
    const dist::Poll poll = operation->poll();
    if (poll == dist::Poll::done) break;
    if (poll == dist::Poll::idle) transport.wait();
  }
  const double mine = MPI_Wtime() - begin;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

void run(int argc, char** argv) {
  if (argc < 5 || argc % 2 == 0)
    throw std::runtime_error("usage: RANKS_PER_NODE MEMORY_GB_S ALGORITHM BYTES …");
  SmpiTransport transport(std::atof(argv[2]) * 1e9);
  for (int i = 3; i < argc; i += 2) {
    const double seconds = seconds_of(argv[i], static_cast<std::size_t>(std::atoll(argv[i + 1])),
                                      transport, std::atoi(argv[1]));
    if (transport.rank() == 0) std::printf("%s %s %.9f\n", argv[i], argv[i + 1], seconds);
  }
}

}  // namespace
}  // namespace rondo::simgrid

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    rondo::simgrid::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", rondo::printable(e.what(), "\n").c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
