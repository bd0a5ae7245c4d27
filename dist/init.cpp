#include "dist/init.h"

#include "dist/environment.h"
#include "dist/launcher.h"
#include "dist/side_channel.h"
#include "dist/thread/thread_transport.h"
#include "dist/tuner.h"
#include "dist/world.h"
#include "tensor/error.h"

#ifdef RONDO_HAS_MPI
#include "dist/mpi/mpi_transport.h"
#endif

namespace rondo::dist {
namespace {

#ifdef RONDO_HAS_MPI
constexpr bool has_mpi = true;
#else
constexpr bool has_mpi = false;
std::shared_ptr<Transport> mpi_transport() { throw CommError("rondo was built without MPI"); }
#endif

std::shared_ptr<Transport> make_transport(const std::string& backend) {
  auto launcher = read_launcher();
  int size = launcher ? launcher->size : 1;
  require<CommError>(backend == "auto" || backend == "mpi" || backend == "self",
                     "dist::init: there is no backend \"", backend,
                     "\"; there are auto, mpi and self");
  require<CommError>(has_mpi || backend != "mpi",
                     "dist::init: the backend mpi was asked for, but rondo was built without MPI");
  bool use_mpi = backend == "mpi" || (backend == "auto" && launcher && has_mpi);
  if (!use_mpi) {
    require<CommError>(
        size == 1, "dist::init: ", launcher ? launcher->name : "", " started ",
        size == Launcher::unknown ? "an unknown number of" : std::to_string(size), " ranks, but ",
        backend == "self" ? "the backend self is a world of one" : "rondo was built without MPI");
    return thread_transports(1)[0];
  }
  auto transport = mpi_transport();
  require<CommError>(!launcher || size == Launcher::unknown || transport->world_size() == size,
                     "dist::init: ", launcher ? launcher->name : "", " started ", size,
                     " ranks, but MPI counts ", transport->world_size(),
                     "; is this mpirun of the MPI that rondo was built with?");
  require<CommError>(!launcher || transport->rank() == launcher->rank,
                     "dist::init: the launcher calls this rank ", launcher ? launcher->rank : 0,
                     ", MPI calls it ", transport->rank());
  return transport;
}

}  // namespace

std::shared_ptr<Communicator> init(const InitOptions& options) {
  const auto side_channel = SideChannelOptions::from_environment();  // wrong anywhere, wrong here
  std::shared_ptr<FlightRecorder> recorder = world().recorder;
  if (recorder == nullptr) recorder = std::make_shared<FlightRecorder>();
  set_world({});  // before MPI is told what to do at exit: Note in dist/world.h
  auto transport = make_transport(options.backend);
  set_world({.transport = transport, .watch = nullptr, .recorder = recorder});
  // Whether it will do is said now, not when it is needed.
  folder_from_environment("RONDO_FLIGHT_RECORD");
  CommunicatorOptions chosen = options.communicator;
  if (options.tune && !chosen.tune) {
    chosen.tune = true;
    chosen.tuning_file = Tuner::default_file();
  }
  auto comm = std::make_shared<Communicator>(transport, std::move(chosen), recorder);
  if (options.share_memory) comm->share_memory();
  const bool needs_none = comm->world_size() == 1 || comm->shares_memory();
  if (options.side_channel && !needs_none) comm->open_side_channel(side_channel);
  set_world({.transport = transport, .watch = comm->watch(), .recorder = recorder});
  return comm;
}

}  // namespace rondo::dist
