// A program whose ranks fail, for tests/mpi/failures.sh: failing one|told|all|models|confused|
// missing|early|early_messages|mismatch|deadline|killed|killed_reading|stopped|start|end|
// dies_at_end.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "dist/data_parallel/ddp.h"
#include "dist/launch/init.h"
#include "dist/launch/launcher.h"
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

/// The last rank dies, or stops permanently as if its machine had frozen.
void lose_last(bool is_last, int signal) {
  if (is_last) raise(signal);
}

/// The same, after a delay, during the work that follows.
void lose_last_soon(bool is_last, int signal, std::chrono::milliseconds after) {
  if (!is_last) return;
  std::thread([=] {
    std::this_thread::sleep_for(after);
    raise(signal);
  }).detach();
}

int body(const std::string& how) {
  if (how == "start") lose_last(is_last_of_launcher(), SIGSTOP);
  auto comm =
      dist::init({.share_memory = how != "told" && how != "early_messages",
                  .communicator = {.timeout = std::chrono::seconds(how == "deadline" ? 2 : 60)}});
  int last = comm->world_size() - 1;
  bool is_last = comm->rank() == last;
  comm->barrier();
  if (how == "one" || how == "told") {  // the others wait in a collective that never completes
    require<IoError>(!is_last, "data/test.bin: no such file");
    comm->all_reduce(ones({1000}));
  } else if (how == "all") {
    throw Error("--model: unknown model resnet21");
  } else if (how == "models") {
    nn::Linear layer(4, is_last ? 3 : 2);
    dist::DistributedDataParallel ddp(layer, comm);
  } else if (how == "confused") {
    nn::Linear layer(4, 2);
    if (is_last)
      comm->new_group({0, 1});
    else
      dist::DistributedDataParallel ddp(layer, comm);
  } else if (how == "early" || how == "early_messages") {  // the last rank has nothing more to do
    if (!is_last) comm->all_reduce(ones({1000}));
  } else if (how == "missing") {  // the others compute and call no collective
    require<IoError>(!is_last, "data/test.bin: no such file");
    std::this_thread::sleep_for(std::chrono::minutes(5));
  } else if (how == "mismatch") {
    comm->all_reduce(ones({1000}), is_last ? dist::ReduceOp::max : dist::ReduceOp::sum);
    comm->barrier();
  } else if (how == "deadline") {
    if (is_last) std::this_thread::sleep_for(std::chrono::minutes(5));
    comm->all_reduce(ones({1000}));
  } else if (how == "killed" || how == "stopped") {  // in the middle of training
    for (int i = 0;; ++i) {
      if (i == 100) lose_last(is_last, how == "killed" ? SIGKILL : SIGSTOP);
      comm->all_reduce(ones({1000}));
    }
  } else if (how == "killed_reading") {  // while the ranks read each other's memory
    const Tensor x = ones({4 << 20});
    comm->barrier();
    lose_last_soon(is_last, SIGKILL, std::chrono::milliseconds(100));
    while (true) comm->all_reduce(x, dist::ReduceOp::avg);
  } else if (how == "end") {
    comm.reset();
    lose_last(is_last, SIGSTOP);
  } else if (how == "dies_at_end") {
    lose_last_soon(is_last, SIGKILL, std::chrono::milliseconds(300));
    if (is_last) std::this_thread::sleep_for(std::chrono::seconds(1));
  } else if (how == "later") {  // the others are in MPI_Finalize when two ranks fail
    if (comm->rank() == 0) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw Error(concat("the loss of rank ", comm->rank(), " is nan"));
  } else if (how == "writing") {  // takes longer than the launcher waits for other failing ranks
    train::BackgroundWrite checkpoint;
    if (comm->rank() == 0) {
      checkpoint.start([] {
        std::this_thread::sleep_for(std::chrono::seconds(4));
        std::ofstream(std::getenv("CHECKPOINT")) << "whole";
      });
    }
    comm->barrier();
    throw Error(concat("the loss of rank ", comm->rank(), " is nan"));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] { return body(argc > 1 ? argv[1] : ""); });
}
