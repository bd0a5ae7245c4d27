// 03_ring: a ring all-reduce on four ranks, step by step.
//
//   build/bin/03_ring                                 four threads act as the ranks
//   mpirun -np 4 --oversubscribe build/bin/03_ring    four processes
//   mpirun -np 4 build/bin/03_ring --device cuda      the last step also runs on four GPUs
//
// Each rank starts with four numbers: rank 0 with ones, rank 1 with tens, rank 2 with hundreds, and
// so on. Each digit of a sum therefore names a rank: 1101 is the sum of the values of ranks 0, 2
// and 3. A segment travels around the ring twice. In the first round it grows (reduce-scatter). In
// the second round it is complete, and each rank copies it (all-gather).
//
// This program runs the code of dist/collectives/algorithms/ring_all_reduce.cpp. The comment at the
// top of that file has the formulas, and cites the proof that no algorithm can send less.

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

// The value of rank r is 10^r. Each segment is one element.
std::vector<float> start_values(int rank, int world_size) {
  float value = 1;
  for (int r = 0; r < rank; ++r) value *= 10;
  return std::vector<float>(static_cast<std::size_t>(world_size), value);
}

// Sends a line to rank 0, which prints the lines of all ranks in order. Only the output needs this:
// in the ring itself all ranks are equal.
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

// Runs one hop of the schedule and waits until it is complete, so that the program can print the
// data between two hops. The library's Pipeline (dist/collectives/algorithms/pipeline.cpp) runs the
// same hops with several chunks in flight.
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
  ring.arrived(i, scratch.data());  // reduce-scatter: adds; all-gather: does nothing
}

void walk(rd::dist::Communicator& comm, const std::string& where) {
  int n = comm.world_size(), r = comm.rank();
  rd::require(n <= 8, "03_ring: ", n,
              " ranks are too many to show: a float has too few digits; start at most 8");
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
                  adding ? "reduce-scatter: each rank adds what it receives"
                         : "all-gather: each rank stores the complete segment that it receives");
    }
    float sent = data[static_cast<std::size_t>(segment)];
    one_hop(comm, *ring, i);
    print_in_order(comm, rd::concat("  rank ", r, ":", show(data), "    sent segment ", segment,
                                    " (", sent, ") to rank ", (r + 1) % n));
  }

  // A program does the same in one call, also on GPUs.
  const rd::Device device = rd::dist::use_device(comm, where);
  const Tensor x = rd::tensor(start_values(r, n), {n}).to(device);
  comm.all_reduce(x);
  rd::require(x.to_vector<float>() == data,
              "03_ring: all_reduce returned another sum than the steps above");
  if (r == 0) {
    std::printf("\nEach rank sent %d segments: 2 (N - 1) / N times its data, N = %d.\n",
                2 * (n - 1), n);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu", all_reduce = "ring";
  rd::flags::CommandLine app("Shows a ring all-reduce step by step");
  app.add("--device", device, "where the final call of all_reduce runs: cpu or cuda");
  app.add("--all-reduce", all_reduce, "its algorithm: auto, ring, mpi or, on GPUs, nccl");
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
      std::printf("4 threads (for 4 processes, use mpirun -np 4 --oversubscribe)\n");
      rd::dist::run_on_threads(4, [&](std::shared_ptr<rd::dist::Transport> transport) {
        rd::dist::Communicator comm(std::move(transport), options);
        walk(comm, device);
      });
    }
    return 0;
  });
}
