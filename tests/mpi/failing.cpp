// A program whose ranks fail, for tests/mpi/failures.sh: failing one|told|all|models|confused|
// missing|early|early_messages|mismatch|deadline|killed|killed_reading|stopped|start|absent|dead|frozen|
// end|through.

#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "dist/ddp.h"
#include "dist/init.h"
#include "dist/launcher.h"
#include "nn/linear.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "train/background_write.h"

using namespace rondo;

namespace {

bool is_last_of_launcher() {
  const auto launcher = dist::read_launcher();
  return launcher && launcher->rank + 1 == launcher->size;
}

/// The last rank dies, or stands still for good as if its machine had frozen.
void lose_last(bool is_last, int signal) {
  if (is_last) raise(signal);
}

/// The same, some time during what it does next.
void lose_last_soon(bool is_last, int signal, std::chrono::milliseconds after) {
  if (!is_last) return;
  std::thread([=] {
    std::this_thread::sleep_for(after);
    raise(signal);
  }).detach();
}

bool stops_after_mpi = false, lingers_after_mpi = false;

/// The same `after` that, in MPI_Init, where it and others wait for rank 0.
void lose_last_in_init(int signal, std::chrono::milliseconds after) {
  const auto launcher = dist::read_launcher();
  if (launcher && launcher->rank == 0) std::this_thread::sleep_for(after * 5 / 4);
  lose_last_soon(is_last_of_launcher(), signal, after);
}

int body(const std::string& how) {
  if (how == "start") lose_last(is_last_of_launcher(), SIGSTOP);
  if (how == "absent") lose_last(is_last_of_launcher(), SIGKILL);
  if (how == "dead") lose_last_in_init(SIGKILL, std::chrono::milliseconds(400));
  if (how == "frozen") lose_last_in_init(SIGSTOP, std::chrono::seconds(4));
  auto comm =
      dist::init({.share_memory = how != "told" && how != "early_messages",
                  .communicator = {.timeout = std::chrono::seconds(how == "deadline" ? 2 : 60)}});
  int last = comm->world_size() - 1;
  bool is_last = comm->rank() == last;
  comm->barrier();
  if (how == "one" || how == "told") {  // the others wait in a collective that will never be
    require<IoError>(!is_last, "data/test.bin: no such file");
    comm->all_reduce(ones({1000}));
  } else if (how == "all") {
    throw Error("--model: there is no resnet21");
  } else if (how == "models") {
    nn::Linear layer(4, is_last ? 3 : 2);
    dist::DistributedDataParallel ddp(layer, comm);
  } else if (how == "confused") {
    nn::Linear layer(4, 2);
    if (is_last)
      comm->new_group({0, 1});
    else
      dist::DistributedDataParallel ddp(layer, comm);
  } else if (how == "early" || how == "early_messages") {  // the last has nothing more to do
    if (!is_last) comm->all_reduce(ones({1000}));
  } else if (how == "missing") {  // the others compute and never listen
    require<IoError>(!is_last, "data/test.bin: no such file");
    std::this_thread::sleep_for(std::chrono::minutes(5));
  } else if (how == "mismatch") {
    comm->all_reduce(ones({1000}), is_last ? dist::ReduceOp::max : dist::ReduceOp::sum);
    comm->barrier();
  } else if (how == "deadline") {
    if (is_last) std::this_thread::sleep_for(std::chrono::minutes(5));
    comm->all_reduce(ones({1000}));
  } else if (how == "killed" || how == "stopped") {  // in the middle of a training
    for (int i = 0;; ++i) {
      if (i == 100) lose_last(is_last, how == "killed" ? SIGKILL : SIGSTOP);
      comm->all_reduce(ones({1000}));
    }
  } else if (how == "killed_reading") {  // in the midst of reading each other's memory
    const Tensor x = ones({4 << 20});
    comm->barrier();
    lose_last_soon(is_last, SIGKILL, std::chrono::milliseconds(100));
    while (true) comm->all_reduce(x, dist::ReduceOp::avg);
  } else if (how == "end") {
    comm.reset();
    lose_last(is_last, SIGSTOP);
  } else if (how == "through") {
    stops_after_mpi = is_last;
  } else if (how == "later") {  // the others are in MPI_Finalize when two fail
    if (comm->rank() == 0) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw Error(concat("the loss of rank ", comm->rank(), " is nan"));
  } else if (how == "writing") {  // longer than ranks that fail in different ways are waited for
    train::BackgroundWrite checkpoint;
    if (comm->rank() == 0) {
      checkpoint.start([] {
        std::this_thread::sleep_for(std::chrono::seconds(4));
        std::ofstream(std::getenv("CHECKPOINT")) << "whole";
      });
    }
    comm->barrier();
    throw Error(concat("the loss of rank ", comm->rank(), " is nan"));
  } else if (how == "lingers") {
    lingers_after_mpi = is_last;
  }
  return 0;
}

}  // namespace

/// In place of MPI's own, as the standard provides for.
extern "C" int MPI_Finalize() {
  const int status = PMPI_Finalize();
  if (stops_after_mpi) raise(SIGSTOP);
  if (lingers_after_mpi) std::this_thread::sleep_for(std::chrono::seconds(4));
  return status;
}

int main(int argc, char** argv) {
  return dist::run([&] { return body(argc > 1 ? argv[1] : ""); });
}
