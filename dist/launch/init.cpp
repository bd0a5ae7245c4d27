#include "dist/launch/init.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/collectives/tuner.h"
#include "dist/failure/side_channel.h"
#include "dist/launch/environment.h"
#include "dist/launch/launcher.h"
#include "dist/launch/world.h"
#include "dist/transports/thread/thread_transport.h"
#include "tensor/error.h"
#include "tensor/printable.h"

#ifdef RONDO_HAS_MPI
#include "dist/transports/mpi/mpi_transport.h"
#endif

namespace rondo::dist {
namespace {

#ifdef RONDO_HAS_MPI
constexpr bool has_mpi = true;
#else
constexpr bool has_mpi = false;
std::shared_ptr<Transport> mpi_transport(std::chrono::milliseconds, const std::any&) {
  throw CommError("rondo was built without MPI");
}
#endif

// The ranks of a job may start some time apart, even if the timeout of collectives is short.
constexpr std::chrono::milliseconds least_time_to_start = std::chrono::minutes(1),
                                    most_time_to_start = std::chrono::hours(24);

bool uses_mpi(const std::string& backend, const std::optional<Launcher>& launcher, bool has_comm) {
  require<CommError>(backend == "auto" || backend == "mpi" || backend == "self",
                     "dist::init: unknown backend \"", backend, "\"; use one of auto, mpi, self",
                     backend == "nccl" || backend == "gloo" || backend == "cuda"
                         ? "; for GPUs call dist::use_device(*comm, \"cuda\") after dist::init, "
                           "which uses NCCL if it is installed"
                         : "");
  require<CommError>(has_mpi || backend != "mpi",
                     "dist::init: the backend is mpi, but rondo was built without MPI");
  require<CommError>(
      !has_comm || (has_mpi && backend != "self"), "dist::init: mpi_comm was given, but ",
      has_mpi ? "the backend self is a world of one" : "rondo was built without MPI");
  if (backend == "mpi" || has_comm || (backend == "auto" && launcher && has_mpi)) return true;
  const int size = launcher ? launcher->size : 1;
  require<CommError>(
      size == 1, "dist::init: ", launcher ? launcher->name : "", " started ",
      size == Launcher::unknown ? "an unknown number of" : std::to_string(size), " ranks, but ",
      backend == "self" ? "the backend self is a world of one" : "rondo was built without MPI");
  return false;
}

void check_against(const Launcher& launcher, const Transport& transport) {
  require<CommError>(launcher.size == Launcher::unknown || transport.world_size() == launcher.size,
                     "dist::init: ", launcher.name, " started ", launcher.size,
                     " ranks, but MPI counts ", transport.world_size(),
                     "; use the mpirun of the MPI that rondo was built with");
  require<CommError>(transport.rank() == launcher.rank, "dist::init: the launcher calls this rank ",
                     launcher.rank, ", MPI calls it ", transport.rank());
}

std::shared_ptr<Transport> start_mpi(const InitOptions& options,
                                     const std::optional<Launcher>& launcher) {
  auto transport = mpi_transport(std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(
                                                options.communicator.timeout),
                                            least_time_to_start, most_time_to_start),
                                 options.mpi_comm);
  if (launcher && !options.mpi_comm.has_value()) check_against(*launcher, *transport);
  return transport;
}

/// Warns if ranks could not connect, for example because of a firewall between machines.
/// Collective.
void warn_of_missing_connections(Communicator& comm) {
  const auto channel = std::dynamic_pointer_cast<SideChannel>(comm.watch());
  std::string mine;
  for (const int peer : SideChannel::neighbours(comm.rank(), comm.world_size()))
    if (peer < comm.rank() && !channel->connected().contains(peer))
      mine += concat(mine.empty() ? "" : ", ", comm.rank(), '-', peer);
  std::string all;
  const std::uint64_t count = comm.collectives();
  for (const std::string& theirs : comm.all_gather_bytes(mine))
    if (!theirs.empty()) all += (all.empty() ? "" : ", ") + theirs;
  comm.set_collectives(count);  // the program's collectives count from 0
  if (all.empty() || comm.rank() != 0) return;
  if (const auto end = all.find(',', 200); end != std::string::npos)
    all = all.substr(0, end) + " …";
  std::fprintf(
      stderr,
      "warning: these ranks cannot connect to each other: %s. If one of them dies, others "
      "may wait until the deadline of a collective. Allow TCP between the machines, or set "
      "RONDO_SOCKET_IFNAME to the network interface that they share.\n",
      printable(all).c_str());
}

}  // namespace

std::shared_ptr<Communicator> init(const InitOptions& options) {
  // Check first what would fail on every rank.
  const auto channel_options = SideChannelOptions::from_environment();
  const auto launcher = read_launcher();
  std::shared_ptr<FlightRecorder> recorder = world().recorder;
  if (recorder == nullptr) recorder = std::make_shared<FlightRecorder>();
  set_world({});  // before MPI registers its exit handlers (dist/launch/world.h)
  auto transport = uses_mpi(options.backend, launcher, options.mpi_comm.has_value())
                       ? start_mpi(options, launcher)
                       : thread_transports(1)[0];
  set_world({.transport = transport, .watch = nullptr, .recorder = recorder});
  // An unwritable folder is reported now, not when it is needed.
  folder_from_environment("RONDO_FLIGHT_RECORD");
  CommunicatorOptions chosen = options.communicator;
  if (options.tune && !chosen.tune) {
    chosen.tune = true;
    chosen.tuning_file = Tuner::default_file();
  }
  auto comm = std::make_shared<Communicator>(transport, std::move(chosen), recorder);
  if (options.side_channel && comm->world_size() > 1) {
    comm->open_side_channel(channel_options);
    set_world({.transport = transport, .watch = comm->watch(), .recorder = recorder});
    warn_of_missing_connections(*comm);
  }
  if (options.share_memory) comm->share_memory();
  return comm;
}

}  // namespace rondo::dist
