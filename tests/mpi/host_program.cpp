// A program that uses MPI itself and lets some of its ranks train, for tests/mpi/host_program.sh:
// host_program LEVEL HOW. LEVEL is the thread level that it requests from MPI:
// single|funneled|serialized|multiple, or none. HOW:
// train|halves|fails|killed|late|null|inter|type|self|finalized.
//
// Rank 0 computes, and all others train. In the communicator of the training ranks the order is
// reversed, so that no rank has the number that the launcher gave it, if there are enough ranks.

#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "dist/data_parallel/ddp.h"
#include "dist/launch/init.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "tensor/creation.h"
#include "tensor/error.h"

using namespace rondo;

namespace {

constexpr int steps = 20, features = 4, tag = 0;
int world_rank = 0, world_size = 1;
bool has_succeeded = false;  // if false, others may wait for this rank

/// Registered before rondo's exit handlers, and therefore called after them.
void finalize() {
  if (!has_succeeded) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) {
    std::cerr << "error: rondo has finalized the program's MPI" << std::endl;
    std::_Exit(3);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

/// Rank 0's part: sends samples to each training rank, and receives their losses.
void simulate() {
  float first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    float sum = 0;
    for (int peer = 1; peer < world_size; ++peer) {
      float x[features];
      for (int i = 0; i < features; ++i) x[i] = static_cast<float>((step + peer + i * i) % 5) - 2;
      MPI_Send(x, features, MPI_FLOAT, peer, tag, MPI_COMM_WORLD);
    }
    for (int peer = 1; peer < world_size; ++peer) {
      float loss = 0;
      MPI_Recv(&loss, 1, MPI_FLOAT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      sum += loss;
    }
    (step == 0 ? first : last) = sum;
  }
  require(last < first / 2, "the loss was ", first, " and is ", last);
  std::cout << "the loss has fallen" << std::endl;
}

void train(dist::Communicator& comm, const std::shared_ptr<dist::Communicator>& shared,
           const std::string& how) {
  require(comm.rank() == world_size - 1 - world_rank && comm.world_size() == world_size - 1,
          "rank ", world_rank, " is ", comm.rank(), " of ", comm.world_size());
  nn::Linear net(features, 1);
  dist::DistributedDataParallel ddp(net, shared);
  optim::SGD sgd(net.parameters(), {.lr = 0.05});
  for (int step = 0; step < steps; ++step) {
    const Tensor x = Tensor::empty({1, features});
    // This message uses the same tags and ranks as some of rondo's.
    MPI_Recv(x.data_ptr<float>(), features, MPI_FLOAT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (step == steps / 2 && comm.rank() == 0) {
      require<IoError>(how != "fails", "train.bin: no such file");
      if (how == "killed") raise(SIGKILL);
    }
    Tensor loss = mse_loss(ddp(x), x.narrow(1, 0, 1));
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    const float value = loss.item<float>();
    MPI_Send(&value, 1, MPI_FLOAT, 0, tag, MPI_COMM_WORLD);
  }
  const std::string mine = concat(net.weight.to_vector<float>()[0]);
  comm.agree("a weight", mine);
}

/// Ranks with even numbers form one world and the others another, at the same time.
void halves() {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
  auto comm = dist::init({.mpi_comm = half});
  const Tensor x = full({1000}, static_cast<float>(world_rank % 2 + 1));
  for (int i = 0; i < steps; ++i) comm->all_reduce(x, dist::ReduceOp::avg);
  require(x.to_vector<float>() == std::vector<float>(1000, static_cast<float>(world_rank % 2 + 1)),
          "the halves of the world have mixed their numbers");
  // A group's ranks are those of its half, not of MPI_COMM_WORLD.
  const auto swapped = comm->new_group({1, 0});
  require(swapped->rank() == 1 - comm->rank(), "rank ", swapped->rank(), " of the group");
  const Tensor rank = full({1}, static_cast<float>(world_rank));
  swapped->all_reduce(rank);
  require(rank.item() == (world_rank % 2 == 0 ? 2 : 4), "the groups have mixed their numbers");
  comm->barrier();
  if (world_rank == 0) std::cout << "two worlds" << std::endl;
}

void refuse(const std::string& how, MPI_Comm part) {
  if (how == "null") dist::init({.mpi_comm = MPI_COMM_NULL});
  if (how == "type") dist::init({.mpi_comm = &part});
  if (how == "self") dist::init({.backend = "self", .mpi_comm = part});
  if (how == "inter") {
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (world_rank + 1) % 2, tag, &inter);
    dist::init({.mpi_comm = inter});
  }
  if (how == "finalized") {
    MPI_Finalize();
    dist::init({.mpi_comm = part});
  }
}

int body(const std::string& level, const std::string& how) {
  const std::map<std::string, int> levels = {{"single", MPI_THREAD_SINGLE},
                                             {"funneled", MPI_THREAD_FUNNELED},
                                             {"serialized", MPI_THREAD_SERIALIZED},
                                             {"multiple", MPI_THREAD_MULTIPLE}};
  if (level == "none") dist::init({.mpi_comm = MPI_COMM_WORLD});
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, levels.at(level), &provided);
  if (how != "finalized") std::atexit(finalize);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm part;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank == 0 ? MPI_UNDEFINED : 0, world_size - world_rank,
                 &part);
  if (world_rank == 0 && how != "train" && how != "fails" && how != "killed" && how != "late")
    MPI_Comm_dup(MPI_COMM_SELF, &part);
  refuse(how, part);
  if (how == "halves") {
    halves();
  } else if (world_rank == 0) {
    simulate();
  } else {
    if (how == "late" && world_rank == 1) {
      has_succeeded = true;
      return 0;
    }
    auto comm = dist::init({.mpi_comm = part});
    train(*comm, comm, how);
  }
  has_succeeded = true;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] {
    require(argc == 3, "usage: host_program LEVEL HOW");
    return body(argv[1], argv[2]);
  });
}
