// A program whose ranks fail, for tests/mpi/failures.sh: failing
// one|told|all|models|missing|mismatch|deadline|start|frozen|end.

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "dist/ddp.h"
#include "dist/init.h"
#include "dist/launcher.h"
#include "nn/linear.h"
#include "tensor/creation.h"
#include "tensor/error.h"

using namespace rondo;

namespace {

bool is_last_of_launcher() {
  const auto launcher = dist::read_launcher();
  return launcher && launcher->rank + 1 == launcher->size;
}

/// The last rank stands still for good, as if its machine had frozen.
void stop_last(bool is_last) {
  if (is_last) raise(SIGSTOP);
}

int body(const std::string& how) {
  if (how == "start") stop_last(is_last_of_launcher());
  if (how == "frozen") {  // in MPI_Init, where it waits for rank 0
    const auto launcher = dist::read_launcher();
    if (launcher && launcher->rank == 0) std::this_thread::sleep_for(std::chrono::seconds(8));
    std::thread([is_last = is_last_of_launcher()] {
      std::this_thread::sleep_for(std::chrono::seconds(4));
      stop_last(is_last);
    }).detach();
  }
  auto comm =
      dist::init({.share_memory = how != "told",
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
  } else if (how == "missing") {  // the others compute and never listen
    require<IoError>(!is_last, "data/test.bin: no such file");
    std::this_thread::sleep_for(std::chrono::minutes(5));
  } else if (how == "mismatch") {
    comm->all_reduce(ones({1000}), is_last ? dist::ReduceOp::max : dist::ReduceOp::sum);
    comm->barrier();
  } else if (how == "deadline") {
    if (is_last) std::this_thread::sleep_for(std::chrono::minutes(5));
    comm->all_reduce(ones({1000}));
  } else if (how == "end") {
    comm.reset();
    stop_last(is_last);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] { return body(argc > 1 ? argv[1] : ""); });
}
