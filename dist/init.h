#pragma once
// init: how a program becomes one rank of a world, and what happens to the world when it fails.
//
//   int main(int argc, char** argv) {
//     return dist::run([&] {
//       auto comm = dist::init();          // mpirun -np 4 ./program: four ranks; ./program: one
//       dist::use_threads(*comm);          // dist/threads.h
//       ...
//       return 0;
//     });
//   }
//
// Note [Strict start]
// If a launcher's environment says that there are N ranks and this process cannot be one of them
// (rondo was built without MPI, or MPI counts otherwise), that is an error. Falling back to a world
// of one would train N separate models and look as if all were well.

#include <functional>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace rondo::dist {

struct InitOptions {
  /// "auto": MPI under a launcher, else a world of one. "mpi": MPI in any case. "self": a world of
  /// one, an error under a launcher of several ranks.
  std::string backend = "auto";
  /// Whether ranks of one machine share memory (Communicator::share_memory).
  bool share_memory = true;
  /// Whether ranks that share none find out which all-reduce is the fastest (dist/tuner.h).
  bool tune = true;
  /// Whether ranks tell each other outside MPI that they are there (dist/side_channel.h). Without,
  /// the end of one is noticed at the others' deadline.
  bool side_channel = true;
  CommunicatorOptions communicator = {};
};

/// The world's communicator. Collective: all ranks call it, equally often. Whoever calls it again
/// gets another communicator of the same ranks, which writes into the same flight recorder; what
/// dist::run hears of ranks that have ended it then hears from the last one. Throws CommError.
std::shared_ptr<Communicator> init(const InitOptions& options = {});

/// body(), and its value. An exception that leaves it ends the whole world: it is printed once on
/// standard error, as one sentence with its rank (without, and by one rank only, when all ranks
/// failed alike), every rank ends with a status other than 0, and none is left waiting.
int run(const std::function<int()>& body);

}  // namespace rondo::dist
