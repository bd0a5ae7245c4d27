// How the ranks of a communicator share memory, if they are on one machine.

#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "dist/collectives/communicator.h"
#include "dist/collectives/host_collectives.h"
#include "dist/launch/host.h"
#include "dist/launch/threads.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr int polls_with_a_core = 5000;  // some 20 us: longer than most small collectives

/// The number of cores of all ranks together, whether they are bound to cores or free to move.
int cores_of_all(Communicator& comm) {
  std::string mine;
  for (int cpu : affinity()) mine += concat(cpu, ' ');
  std::set<int> all;
  for (const std::string& theirs : comm.all_gather_bytes(mine)) {
    std::istringstream cpus(theirs);
    for (int cpu; cpus >> cpu;) all.insert(cpu);
  }
  return static_cast<int>(all.size());
}

/// For each rank the first rank that is on the same host.
std::vector<int> nodes_by_host(Communicator& comm) {
  const std::vector<std::string> hosts = comm.all_gather_bytes(host());
  std::vector<int> nodes;
  for (const std::string& host : hosts)
    nodes.push_back(static_cast<int>(std::ranges::find(hosts, host) - hosts.begin()));
  return nodes;
}

// Either all ranks get the segment or none. If a rank cannot open it (for example, in another
// container), this is not an error: the ranks then use messages.
std::shared_ptr<Segment> share_segment(Communicator& comm, std::size_t bytes) {
  std::shared_ptr<Segment> segment;
  std::string name;
  try {
    if (comm.rank() == 0) segment = Segment::create(bytes);
    if (segment) name = segment->name();
  } catch (const CommError&) {
  }
  name = comm.broadcast_bytes(name);
  try {
    if (comm.rank() != 0 && !name.empty()) segment = Segment::open(name);
  } catch (const CommError&) {
  }
  // The segment has rank 0's size. All sizes must be equal: otherwise a rank would write to other
  // ranks' memory.
  const std::int64_t wanted = static_cast<std::int64_t>(bytes);
  const Tensor least = Tensor::empty({3}, {.dtype = i64});
  const std::int64_t mine[] = {segment != nullptr ? 1 : 0, wanted, -wanted};
  std::copy(std::begin(mine), std::end(mine), least.data_ptr<std::int64_t>());
  comm.all_reduce_async(least, ReduceOp::min, AllReduce::recursive_doubling).wait();
  if (comm.rank() == 0 && segment) segment->close();
  const auto agreed = least.to_vector<std::int64_t>();
  require<CommError>(agreed[1] == -agreed[2], "allocate: one rank asks for ",
                     agreed[1] / comm.world_size(), " bytes, another for ",
                     -agreed[2] / comm.world_size());
  return agreed[0] == 1 ? segment : nullptr;
}

// Each rank tries to read a number in every other rank's memory.
bool can_read_peers(Communicator& comm, const PeerMemory& peers) {
  const std::uint64_t mine = 0x5eed0000u + static_cast<std::uint64_t>(comm.rank());
  const auto addresses =
      comm.all_gather_bytes(std::to_string(reinterpret_cast<std::uintptr_t>(&mine)));
  bool can = true;
  for (int r = 0; r < comm.world_size(); ++r) {
    std::uint64_t theirs = 0;
    try {
      can &= peers.read(r, &theirs, std::stoull(addresses[static_cast<std::size_t>(r)]),
                        sizeof theirs);
    } catch (const CommError&) {
    }
    can = can && theirs == 0x5eed0000u + static_cast<std::uint64_t>(r);
  }
  const Tensor everywhere = scalar(can, {.dtype = i32});
  // `mine` must live until all ranks have read it. The algorithm is fixed: the one that the program
  // wants is compared only later.
  comm.all_reduce_async(everywhere, ReduceOp::min, AllReduce::recursive_doubling).wait();
  return everywhere.item<int>() == 1;
}

}  // namespace

bool Communicator::share_memory() {
  wants_memory_ = true;  // groups of this communicator may be able to share memory
  if (world_size_ == 1 || shares_memory()) return shares_memory();
  const std::uint64_t sequence =
      sequence_;  // restored below: the program's first collective has number 0
  auto segment = share_segment(*this, SharedSpace::bytes_for(world_size_));
  if (segment == nullptr) {
    if (node_of().empty()) host_->set_node_of(nodes_by_host(*this));
    sequence_ = sequence;
    return false;
  }
  const auto memory = std::make_shared<NodeMemory>(std::move(segment), rank_, world_size_);
  host_->set_memory(memory);
  // If there are fewer cores than ranks, a waiting rank must give its core to another one.
  host_->progress().set_eager_polls(cores_of_all(*this) >= world_size_ ? polls_with_a_core : 0);
  std::vector<pid_t> processes;
  for (const std::string& process : all_gather_bytes(std::to_string(getpid())))
    processes.push_back(std::stoi(process));
  PeerMemory peers(std::move(processes));
  if (can_read_peers(*this, peers)) memory->peers = std::move(peers);
  sequence_ = sequence;
  return true;
}

StoragePtr Communicator::allocate(std::size_t bytes, Device device) {
  const AllocationTag tag("buckets of gradients");
  if (shares_memory() && device.is_cpu() && bytes > 0) {
    if (auto segment = share_segment(*this, NodeMemory::bytes_for(bytes, world_size_)))
      return host_->memory()->add_window(segment, bytes);
  }
  if (device.is_cpu() && bytes > 0) tune(bytes);
  return std::make_shared<Storage>(bytes, allocator_of(device));
}

Tensor Communicator::empty(const Dims& sizes, TensorOptions options) {
  const DType dtype = options.dtype.value_or(f32);
  const auto bytes = static_cast<std::size_t>(numel_of(sizes) * size_of(dtype));
  return Tensor::over(allocate(bytes, options.device), 0, sizes, strides_of(sizes, options.format),
                      dtype);
}

}  // namespace rondo::dist
