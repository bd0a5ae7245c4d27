// 03_ring: what a ring all-reduce does, step by step, on four ranks.
//
//   build/bin/03_ring                            four threads play the ranks
//   mpirun -np 4 --oversubscribe build/bin/03_ring    four processes
//   mpirun -np 4 build/bin/03_ring --device cuda      four GPUs, at the end
//
// Each rank starts with four numbers: rank 0 with ones, rank 1 with tens, rank 2 with hundreds. So
// a sum shows its terms: 1101 is "from ranks 0, 2 and 3". Watch a segment grow while it travels
// once around (reduce-scatter), and then travel around again, complete (all-gather). The formulas,
// and why this is the best that can be done, are at the head of
// dist/collectives/algorithms/ring_all_reduce.cpp, whose code runs here.

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dist/collectives/algorithms/ring_all_reduce.h"
#include "dist/launch/device.h"
#include "dist/launch/init.h"
#include "dist/launch/launcher.h"
#include "dist/transports/thread/thread_transport.h"
#include "extras/command_line.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

// Rank 0's value is 1, rank 1's 10, rank 2's 100 …; segments are one element each.
std::vector<float> start_values(int rank, int world_size) {
  float value = 1;
  for (int r = 0; r < rank; ++r) value *= 10;
  return std::vector<float>(static_cast<std::size_t>(world_size), value);
}

// Sends a line to rank 0, which prints the lines of all ranks in order. Only for the show: the ring
// itself never needs a rank 0.
void print_in_order(rd::dist::Communicator& comm, const std::string& line) {
  auto lines = comm.all_gather_bytes(line);
  if (comm.rank() != 0) return;
  for (const std::string& l : lines) std::printf("%s\n", l.c_str());
  std::fflush(stdout);
}

std::string show(const std::vector<float>& data) {
  std::string text;
  for (float v : data) {
    char number[32];
    std::snprintf(number, sizeof number, " %7.0f", v);
    text += number;
  }
  return text;
}

// One hop of the schedule, done by hand and blocking, to be able to look at the data in between.
// The library's Pipeline (dist/collectives/algorithms/pipeline.cpp) does the same with several
// chunks in flight.
void one_hop(rd::dist::Communicator& comm, rd::dist::Schedule& ring, std::int64_t i) {
  int n = comm.world_size(), r = comm.rank();
  rd::dist::Hop hop = ring.hop(i);
  std::vector<char> scratch(hop.recv_bytes);
  void* place = hop.recv ? hop.recv : scratch.data();

  rd::dist::Transport& transport = comm.transport();
  rd::dist::Request in = transport.recv((r + n - 1) % n, /*tag=*/20000, place, hop.recv_bytes);
  rd::dist::Request out = transport.send((r + 1) % n, /*tag=*/20000, hop.send, hop.send_bytes);
  while (!transport.test(in)) std::this_thread::yield();
  while (!transport.test(out)) std::this_thread::yield();
  ring.arrived(i, scratch.data());  // adds, in the first half; does nothing in the second
}

void walk(rd::dist::Communicator& comm, const std::string& where) {
  int n = comm.world_size(), r = comm.rank();
  rd::require(n <= 8, "03_ring: ", n,
              " ranks are too many to show: a float has not so many digits");
  std::vector<float> data = start_values(r, n);
  rd::dist::Arithmetic host;
  auto ring = rd::dist::ring_all_reduce_schedule(r, n, data.data(), n, rd::f32,
                                                 rd::dist::ReduceOp::sum, host);

  if (r == 0) std::printf("\nstart: rank r holds 10^r in each of %d segments\n", n);
  print_in_order(comm, rd::concat("  rank ", r, ":", show(data)));
  for (std::int64_t i = 0; i < ring->hops(); ++i) {
    rd::dist::Hop hop = ring->hop(i);
    auto segment = static_cast<const float*>(hop.send) - data.data();
    bool adding = i < n - 1;
    if (r == 0) {
      std::printf("\nstep %d, %s\n", static_cast<int>(i),
                  adding ? "reduce-scatter: what arrives is added"
                         : "all-gather: what arrives is complete and replaces");
    }
    float sent = data[static_cast<std::size_t>(segment)];
    one_hop(comm, *ring, i);
    print_in_order(comm, rd::concat("  rank ", r, ":", show(data), "    sent segment ", segment,
                                    " (", sent, ") to rank ", (r + 1) % n));
  }

  // The same in one call, as a program would do it, also on GPUs.
  const rd::Device device = rd::dist::use_device(comm, where);
  const Tensor x = rd::tensor(start_values(r, n), {n}).to(device);
  comm.all_reduce(x);
  rd::require(x.to_vector<float>() == data, "the walk and the library disagree");
  if (r == 0) {
    std::printf("\nEach rank sent %d segments, which is 2 (N - 1) / N times its data (N = %d).\n",
                2 * (n - 1), n);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu", all_reduce = "auto";
  rd::flags::CommandLine app("Shows a ring all-reduce step by step");
  app.add("--device", device, "where the library does it in the end: cpu or cuda");
  app.add("--all-reduce", all_reduce, "how: auto, ring, mpi or, on GPUs, nccl");
  if (auto status = app.parse(argc, argv)) return *status;
  return rd::dist::run([&] {
    const rd::dist::CommunicatorOptions options{.all_reduce =
                                                    rd::dist::parse_all_reduce(all_reduce)};
    if (rd::dist::read_launcher()) {
      auto comm = rd::dist::init({.communicator = options});
      if (comm->rank() == 0)
        std::printf("%d processes, over %s\n", comm->world_size(), comm->backend());
      walk(*comm, device);
    } else {
      std::printf("4 threads (mpirun -np 4 --oversubscribe makes it 4 processes)\n");
      rd::dist::run_on_threads(4, [&](std::shared_ptr<rd::dist::Transport> transport) {
        rd::dist::Communicator comm(std::move(transport), options);
        walk(comm, device);
      });
    }
    return 0;
  });
}
