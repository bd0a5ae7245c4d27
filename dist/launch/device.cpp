#include "dist/launch/device.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "dist/collectives/device_collectives.h"
#include "dist/launch/threads.h"
#include "tensor/cuda.h"
#include "tensor/error.h"

#ifdef RONDO_HAS_CUDA
#include "dist/collectives/cuda/staged.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/stream.h"
#endif
#ifdef RONDO_HAS_NCCL
#include "dist/transports/nccl/nccl_collectives.h"
#endif

namespace rondo::dist {
namespace {

/// If any rank has a complaint, throws E on all ranks, with that rank's number in front unless all
/// ranks have the same complaint. Collective.
template <class E>
void hear_complaints(Communicator& comm, const std::string& complaint) {
  const std::vector<std::string> all = comm.all_gather_bytes(complaint);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const bool of_all = std::all_of(all.begin(), all.end(), [&](auto& c) { return c == all[r]; });
    throw E(of_all ? all[r]
                   : concat("rank ", comm.rank_in_world(static_cast<int>(r)), ": ", all[r]));
  }
}

#ifdef RONDO_HAS_CUDA

/// The PCI bus id of the card, which does not depend on how a process numbers its GPUs.
std::string bus_id(int index) {
  char id[32] = {};
  cuda::check(cuda::cudart().get_pci_bus_id(id, sizeof id, index));
  return id;
}

#ifdef RONDO_HAS_NCCL

/// NCCL before 2.30 refuses two ranks on one card.
bool ranks_may_share_a_card() {
  const char* enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return enabled != nullptr && std::string_view(enabled) == "1" && nccl_version() >= 23000;
}

std::shared_ptr<DeviceCollectives> over_nccl(Communicator& comm, Device device,
                                             const Placement& place) {
  std::string complaint;
  try {
    nccl();
  } catch (const CommError& missing) {
    complaint = missing.what();
  }
  hear_complaints<CommError>(comm, complaint);
  comm.agree("collectives compared", comm.comparison());
  const std::vector<std::string> cards =
      comm.all_gather_bytes(concat(place.host, ' ', bus_id(device.index)));
  // Two ranks may be threads of one process.
  const std::vector<std::string> streams = comm.all_gather_bytes(
      concat(getpid(), ' ', static_cast<const void*>(cuda::current_stream(device.index).get())));
  const bool may_share = ranks_may_share_a_card();
  for (std::size_t r = 0; r < cards.size(); ++r) {
    for (std::size_t s = 0; s < r; ++s) {
      if (cards[r] != cards[s]) continue;
      require<CommError>(!may_share || streams[r] != streams[s], "ranks ",
                         comm.rank_in_world(static_cast<int>(s)), " and ",
                         comm.rank_in_world(static_cast<int>(r)),
                         " are threads with the same current stream on one GPU, in which each "
                         "would wait for the other; give each a stream of its own "
                         "(cuda::StreamGuard)");
      require<CommError>(
          may_share, "ranks ", comm.rank_in_world(static_cast<int>(s)), " and ",
          comm.rank_in_world(static_cast<int>(r)), " would share one GPU (",
          cards[r].substr(cards[r].rfind(' ') + 1), "), which NCCL ",
          nccl_version_text(nccl_version()),
          " refuses: start at most one rank for each GPU, or send through the host's "
          "memory (--all-reduce mpi)");
    }
  }
  const std::string id = comm.broadcast_bytes(comm.rank() == 0 ? nccl_unique_id() : "");
  return std::make_shared<NcclCollectives>(comm, device, nccl_unique_id(id));
}

#else

std::shared_ptr<DeviceCollectives> over_nccl(Communicator&, Device, const Placement&) {
  throw CommError(
      "this rondo was built without NCCL; use --all-reduce mpi to send the GPUs' data through the "
      "host's memory");
}

#endif

void attach(Communicator& comm, Device device, const Placement& place) {
  const AllReduce algorithm = comm.options().all_reduce;
  if (algorithm == AllReduce::mpi || algorithm == AllReduce::mpi_blocking)
    comm.attach(std::make_shared<StagedCollectives>(comm.host(), device));
  else
    comm.attach(over_nccl(comm, device, place));
}

#else

void attach(Communicator&, Device, const Placement&) {}

#endif

}  // namespace

Device use_device(Communicator& comm, const std::string& name) {
  comm.agree("device", name);
  const Device asked = Device::parse(name);
  if (asked.is_cpu()) return asked;
  const bool names_one = name.find(':') != std::string::npos;
  require<DeviceError>(!names_one || comm.world_size() == 1, "device ", name, " is one GPU for ",
                       comm.world_size(),
                       " ranks; use cuda, and each rank gets the GPU of its number");
  const int devices = cuda::device_count();
  hear_complaints<DeviceError>(
      comm,
      devices > 0 ? "" : concat("device ", name, " is not available: ", cuda::why_unavailable()));
  const Placement here = place(comm);
  const Device device = names_one ? asked : Device::cuda(here.local_rank % devices);
  cuda::require_device(device.index);
  // A second call changes nothing: messages may be under way.
  const bool has_it = comm.gpu() != nullptr && comm.gpu()->device() == device;
  if (comm.world_size() > 1 && !has_it) attach(comm, device, here);
  return device;
}

void share_gpu(Communicator& group, Device device) {
  if (group.world_size() > 1) attach(group, device, place(group));
}

}  // namespace rondo::dist
