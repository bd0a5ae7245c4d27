#pragma once
// init: how a program becomes one rank of a world, and what happens to the world when it fails.
//
//   int main(int argc, char** argv) {
//     return dist::run([&] {
//       auto comm = dist::init();          // mpirun -np 4 ./program: four ranks; ./program: one
//       dist::use_threads(*comm);          // dist/launch/threads.h
//       ...
//       return 0;
//     });
//   }
//
// Note [Strict start]
// If a launcher's environment says that there are N ranks and this process cannot be one of them
// (rondo was built without MPI, or MPI counts otherwise), that is an error. Falling back to a world
// of one would train N separate models and look as if all were well.
//
// Note [A program that has MPI already]
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
//   MPI_Comm_split(MPI_COMM_WORLD, trains ? 0 : MPI_UNDEFINED, 0, &part);
//   auto comm = trains ? dist::init({.mpi_comm = part}) : nullptr;   // collective over `part`
// Ranks and sizes are those of `part`. rondo duplicates it, so that no message of the program's
// gets mixed up with one of rondo's, and leaves MPI_Finalize to the program. The program needs
// MPI_THREAD_FUNNELED at least. Below MPI_THREAD_MULTIPLE rondo calls MPI only in the thread that
// calls rondo, so collectives advance only while the program waits for one. No collective of
// another communicator may be under way while `init` is called. A rank that fails ends the whole
// job, the ranks that do not train as well.

#include <any>
#include <functional>
#include <memory>
#include <string>

#include "dist/collectives/communicator.h"

namespace rondo::dist {

struct InitOptions {
  /// "auto": MPI under a launcher, else a world of one. "mpi": MPI in any case. "self": a world of
  /// one, an error under a launcher of several ranks.
  std::string backend = "auto";
  /// An MPI_Comm of the program's, whose ranks train; empty: all ranks that the launcher started.
  /// `std::any`, so that users of this header need no mpi.h. What the launcher's environment says
  /// of ranks does not count then.
  std::any mpi_comm = {};
  /// Whether ranks of one machine share memory (Communicator::share_memory).
  bool share_memory = true;
  /// Whether ranks that share none find out which all-reduce is the fastest
  /// (dist/collectives/tuner.h).
  bool tune = true;
  /// Whether ranks tell each other outside MPI that they are there (dist/failure/side_channel.h).
  /// Without, the end of one is noticed at the others' deadline.
  bool side_channel = true;
  CommunicatorOptions communicator = {};
};

/// The world's communicator. Collective: all ranks call it, equally often. Whoever calls it again
/// gets another communicator of the same ranks, which writes into the same flight recorder; what
/// dist::run hears of ranks that have ended it then hears from the last one. Throws CommError, with
/// InitOptions::mpi_comm also if it is MPI_COMM_NULL, an intercommunicator or no MPI_Comm, if MPI
/// is not initialized, or if its thread level is too low.
std::shared_ptr<Communicator> init(const InitOptions& options = {});

/// body(), and its value. An exception that leaves it ends the whole world: it is printed once on
/// standard error, as one sentence with its rank (without, and by one rank only, when all ranks
/// failed alike), every rank ends with a status other than 0, and none is left waiting.
int run(const std::function<int()>& body);

}  // namespace rondo::dist
