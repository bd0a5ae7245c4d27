#pragma once
// init: how a program becomes one rank of a world, and how the world ends if a rank fails.
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
// (rondo was built without MPI, or MPI counts otherwise), init throws an error. Falling back to a
// world of one would train N separate models without any sign of a problem.
//
// Note [A program that has MPI already]
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
//   MPI_Comm_split(MPI_COMM_WORLD, trains ? 0 : MPI_UNDEFINED, 0, &part);
//   auto comm = trains ? dist::init({.mpi_comm = part}) : nullptr;   // collective over `part`
// Ranks and sizes are those of `part`. rondo duplicates it, so that messages of the program and of
// rondo cannot be confused. The program itself calls MPI_Finalize. It needs at least
// MPI_THREAD_FUNNELED. Below MPI_THREAD_MULTIPLE rondo calls MPI only in the thread that calls
// rondo, so collectives advance only while the program waits for one. No collective of another
// communicator may be under way while `init` runs. If a rank fails, the whole job ends, including
// the ranks that do not train.

#include <any>
#include <functional>
#include <memory>
#include <string>

#include "dist/collectives/communicator.h"

namespace rondo::dist {

struct InitOptions {
  /// "auto": MPI under a launcher, otherwise a world of one. "mpi": always MPI. "self": a world of
  /// one; an error under a launcher of several ranks.
  std::string backend = "auto";
  /// The program's MPI_Comm whose ranks train; empty: all ranks that the launcher started. It is a
  /// `std::any`, so that users of this header need no mpi.h. If it is set, the launcher's
  /// environment is ignored.
  std::any mpi_comm = {};
  /// Whether ranks of one machine share memory (Communicator::share_memory).
  bool share_memory = true;
  /// Whether ranks that do not share memory measure which all-reduce is the fastest
  /// (dist/collectives/tuner.h).
  bool tune = true;
  /// Whether ranks detect the end of another rank with sockets outside MPI
  /// (dist/failure/side_channel.h). If false, the other ranks notice it only at the deadline of a
  /// collective.
  bool side_channel = true;
  CommunicatorOptions communicator = {};
};

/// The world's communicator. Collective: all ranks call it, equally often. A second call returns
/// another communicator of the same ranks, which uses the same flight recorder; dist::run then uses
/// the side channel of the last one. Throws CommError; with InitOptions::mpi_comm also if it is
/// MPI_COMM_NULL, an intercommunicator or not an MPI_Comm, if MPI is not initialized, or if its
/// thread level is too low.
std::shared_ptr<Communicator> init(const InitOptions& options = {});

/// Calls body() and returns its value. An exception that leaves body ends the whole world. It is
/// printed once on standard error, as one sentence with its rank. If all ranks failed with the same
/// sentence, one rank prints it, without a rank number. Every rank ends with an exit status other
/// than 0, and no rank is left waiting.
int run(const std::function<int()>& body);

}  // namespace rondo::dist
