#include "extras/doctor/network.h"

#ifdef RONDO_DOCTOR_MPI
#include <mpi.h>
#endif
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "dist/failure/side_channel.h"
#include "dist/launch/launcher.h"
#include "dist/launch/threads.h"
#include "dist/transports/shared_memory/peer_memory.h"
#include "tensor/error.h"

namespace rondo::doctor {
namespace {

#ifdef RONDO_DOCTOR_MPI
void look_at_mpi(Rank& rank) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(version, &length);  // allowed before MPI_Init
  rank.mpi = version;
  // The version is followed by build information.
  rank.mpi.erase(std::min(rank.mpi.find_first_of("\n\r,"), rank.mpi.size()));
  for (char& c : rank.mpi) c = c == '\t' ? ' ' : c;
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  if (!initialized) return;
  MPI_Query_thread(&level);
  rank.thread_level = level == MPI_THREAD_MULTIPLE     ? "multiple"
                      : level == MPI_THREAD_SERIALIZED ? "serialized"
                      : level == MPI_THREAD_FUNNELED   ? "funneled"
                                                       : "single";
}
#else
void look_at_mpi(Rank&) {}
#endif

/// Whether this rank can read a number in the memory of every other rank, as a shared all-reduce of
/// private tensors does.
bool can_read_all(dist::Communicator& machine) {
  const std::uint64_t mine = 0xd0c0000u + static_cast<std::uint64_t>(machine.rank());
  const auto places =
      machine.all_gather_bytes(concat(getpid(), ' ', reinterpret_cast<std::uintptr_t>(&mine)));
  std::vector<pid_t> processes;
  std::vector<std::uint64_t> addresses;
  for (const std::string& place : places) {
    std::size_t end = 0;
    processes.push_back(std::stoi(place, &end));
    addresses.push_back(std::stoull(place.substr(end)));
  }
  const dist::PeerMemory peers(std::move(processes));
  bool can = true;
  for (int r = 0; r < machine.world_size(); ++r) {
    std::uint64_t theirs = 0;
    try {
      peers.read(r, &theirs, addresses[static_cast<std::size_t>(r)], sizeof theirs);
    } catch (const CommError&) {
    }
    can = can && theirs == 0xd0c0000u + static_cast<std::uint64_t>(r);
  }
  machine.barrier();  // `mine` must exist until all have read it
  return can;
}

}  // namespace

void look_at_launcher(Rank& rank) {
  try {
    const auto launcher = dist::read_launcher();
    if (!launcher) return;
    rank.launcher = launcher->name;
    rank.launcher_size = launcher->size;
  } catch (const CommError& error) {
    rank.launcher = error.what();
  }
}

void look_at_world(Rank& rank, dist::Communicator& comm) {
  rank.rank = comm.rank();
  look_at_mpi(rank);
  rank.cuda_aware = comm.transport().reaches_gpus();
  rank.max_tag = comm.transport().max_tag();
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  rank.threads.wanted = wanted != nullptr ? wanted : "";
  rank.threads.share = dist::place(comm).threads;
  if (dist::omp_num_threads(rank.threads.wanted) == 0) omp_set_num_threads(rank.threads.share);
  rank.threads.used = omp_get_max_threads();
  const auto machine = dist::machine_group(comm);
  rank.shares_memory = machine->world_size() == 1 || machine->shares_memory();
  rank.reads_peers = can_read_all(*machine);
}

void look_at_side_channel(Rank& rank, const dist::Communicator& comm) {
  const auto channel = std::dynamic_pointer_cast<dist::SideChannel>(comm.watch());
  if (channel == nullptr) return;
  rank.side_links_wanted =
      static_cast<int>(dist::SideChannel::neighbours(comm.rank(), comm.world_size()).size());
  rank.side_links = static_cast<int>(channel->connected().size());
}

}  // namespace rondo::doctor
