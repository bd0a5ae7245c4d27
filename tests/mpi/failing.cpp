// A program whose ranks fail, for tests/mpi/failures.sh: failing one|all|models|missing|mismatch|deadline.

#include <cstdio>
#include <string>
#include <thread>

#include "dist/ddp.h"
#include "dist/init.h"
#include "nn/linear.h"
#include "tensor/creation.h"
#include "tensor/error.h"

using namespace rondo;

namespace {

int body(const std::string& how) {
  auto comm =
      dist::init({.communicator = {.timeout = std::chrono::seconds(how == "deadline" ? 2 : 60)}});
  int last = comm->world_size() - 1;
  bool is_last = comm->rank() == last;
  comm->barrier();
  if (how == "one") {  // the others wait in a collective that will never be
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
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] { return body(argc > 1 ? argv[1] : ""); });
}
