#ifdef RONDO_HAS_NCCL

#include "support/host_nccl.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "dist/collectives/reduce.h"
#include "support/host_cudart.h"
#include "tensor/error.h"

namespace rondo::test {
namespace {

using dist::ReduceOp;

/// One rank's part of a collective.
struct Call {
  std::string kind;
  const void* send;
  void* recv;
  std::size_t count;  // elements of the part that is sent
  DType dtype;
  ReduceOp op;
  int root;

  std::string describe() const {
    return concat(kind, " of ", count, ' ', dtype, " (", op, ", root ", root, ")");
  }
};

/// A collective. The last rank to arrive executes it.
struct Meeting {
  std::map<int, Call> calls;
  bool is_over = false;
};

struct Parcel {
  const void* data;
  std::size_t bytes;
  std::shared_ptr<bool> taken = std::make_shared<bool>(false);
};

struct World {
  int size;
  int joined = 0;
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<Parcel>> mail;  // key: from, to
  std::vector<std::thread::id> makers;                     // the threads that made its ranks
};

struct Comm {
  std::shared_ptr<World> world;
  int rank, device;
  std::thread::id maker;
  std::uint64_t next = 0;
  bool aborted = false;
  bool busy = true;  // every call first returns ncclInProgress
  bool has_messages = false;
  int max_blocks = 0;                  // of its kernels, as its owner has limited them
  std::optional<cudaStream_t> stream;  // of its last collective
  ncclResult_t error = ncclSuccess;
};

// Everything below runs under this lock, or under submit's, which is locked first.
std::recursive_mutex& mutex() {
  static auto* made = new std::recursive_mutex;
  return *made;
}
using Lock = std::lock_guard<std::recursive_mutex>;

std::map<std::string, std::shared_ptr<World>> worlds;
std::map<int, Comm*> comms;  // the last of each rank
std::vector<std::unique_ptr<Comm>>& all_comms() {
  // Never freed: streams may still contain their work.
  static auto* all = new std::vector<std::unique_ptr<Comm>>;
  return *all;
}
std::vector<std::string> violations;
int said_version = 0;
int most_blocks = 0;  // of a kernel of a message
std::map<std::string, int> calls_of_kind;
std::uint64_t ids = 0;

Comm& of(ncclComm_t comm) { return *reinterpret_cast<Comm*>(comm); }

void violation(std::string what) {
  Lock lock(mutex());
  violations.push_back(std::move(what));
}

/// A group that this thread is building: the work of each stream. All default streams have the same
/// handle, so the device belongs to the key.
struct Group {
  int depth = 0;
  std::map<std::pair<int, cudaStream_t>, std::vector<std::function<bool()>>> work;
};
thread_local Group group;

int current_device() {
  int device = -1;
  host_cudart().get_device(&device);
  return device;
}

/// The header's rule for a thread that drives several ranks.
void check_group(const Comm& comm, const std::string& what) {
  Lock lock(mutex());
  if (group.depth == 0 && std::ranges::count(comm.world->makers, comm.maker) > 1)
    violation(concat("rank ", comm.rank, ": ", what, " outside a group"));
}
void check_caller(const Comm& comm, const std::string& what) {
  check_group(comm, what);
  if (current_device() != comm.device)
    violation(concat("rank ", comm.rank, ": ", what, " while GPU ", current_device(),
                     " is the current one"));
}

/// NCCL's kernels occupy the GPU while they wait for other ranks, so those of messages must leave
/// room for those of collectives.
void check_message(Comm& comm) {
  comm.has_messages = true;
  {
    Lock lock(mutex());
    most_blocks = std::max(most_blocks, comm.max_blocks);
  }
  if (comm.max_blocks < 1 || comm.max_blocks > 32)
    violation(concat("rank ", comm.rank, ": its messages may occupy the whole GPU"));
}
/// Kernels of two communicators in different streams may start in different orders on two ranks.
void check_stream(Comm& comm, cudaStream_t stream, const std::string& what) {
  Lock lock(mutex());
  if (std::ranges::count(comm.world->makers, comm.maker) > 1) return;  // it drives several ranks
  comm.stream = stream;
  for (const auto& other : all_comms())
    if (other->device == comm.device && other->maker == comm.maker && !other->aborted &&
        other->stream.value_or(stream) != stream)
      violation(concat("rank ", comm.rank, ": ", what,
                       " is in another stream than collectives of another communicator"));
}

ncclResult_t put(ncclComm_t comm, cudaStream_t stream, const std::string& what,
                 std::function<bool()> work) {
  check_caller(of(comm), what);
  {
    Lock lock(mutex());
    ++calls_of_kind[what];
  }
  // A message waits only for work that the GPU had before the message was posted.
  const bool is_message = group.depth == 0 && (what == "send" || what == "recv");
  if (is_message) check_message(of(comm));
  if (!is_message) check_stream(of(comm), stream, what);
  if (!is_message && !has_waited_for_device(stream))
    violation(concat("rank ", of(comm).rank, ": ", what, " does not wait for the GPU"));
  of(comm).busy = true;
  if (group.depth > 0)
    group.work[{of(comm).device, stream}].push_back(std::move(work));
  else
    submit(stream, std::move(work));
  return ncclInProgress;
}

void compute(World& world, Meeting& meeting) {
  const Call& first = meeting.calls.at(0);
  const std::size_t bytes = first.count * static_cast<std::size_t>(size_of(first.dtype));
  for (const auto& [rank, call] : meeting.calls) {
    if (call.describe() != first.describe())
      violation(concat("rank ", rank, " calls ", call.describe(), " where rank 0 calls ",
                       first.describe()));
  }
  // The data that each rank sends, copied before any of it is overwritten.
  std::vector<std::vector<char>> sent;
  for (const auto& [rank, call] : meeting.calls) {
    const auto* data = static_cast<const char*>(call.send);
    sent.emplace_back(data, data + bytes);
  }
  std::vector<char> result = sent[static_cast<std::size_t>(first.root)];
  if (first.kind == "all_gather") {
    result.clear();
    for (const auto& part : sent) result.insert(result.end(), part.begin(), part.end());
  } else if (first.kind != "broadcast") {
    result = sent[0];
    const auto count = static_cast<std::int64_t>(first.count);
    for (std::size_t r = 1; r < sent.size(); ++r)
      dist::combine(result.data(), sent[r].data(), count, first.dtype, first.op);
    if (first.op == ReduceOp::avg) dist::divide(result.data(), count, first.dtype, world.size);
  }
  for (const auto& [rank, call] : meeting.calls) {
    if (first.kind == "reduce" && rank != first.root) continue;
    if (first.kind == "reduce_scatter") {
      const std::size_t part = bytes / static_cast<std::size_t>(world.size);
      std::memcpy(call.recv, result.data() + part * static_cast<std::size_t>(rank), part);
    } else {
      std::memcpy(call.recv, result.data(), result.size());
    }
  }
}

/// The header's rule: a buffer that is sent may overlap the result only at this rank's own place.
void check_memory(const Comm& comm, const Call& call) {
  const auto size = static_cast<std::size_t>(comm.world->size);
  const std::size_t sent = call.count * static_cast<std::size_t>(size_of(call.dtype));
  const bool gathers = call.kind == "all_gather", scatters = call.kind == "reduce_scatter";
  const std::size_t received = gathers ? sent * size : scatters ? sent / size : sent;
  const auto own = static_cast<std::size_t>(comm.rank) * std::min(sent, received);
  const auto* x = static_cast<const char*>(call.send);
  const auto* y = static_cast<const char*>(call.recv);
  const bool in_place = x + (scatters ? own : 0) == y + (gathers ? own : 0);
  if (x < y + received && y < x + sent && !in_place)
    violation(concat("rank ", comm.rank, ": ", call.describe(), " overlaps its result"));
}

ncclResult_t collective(ncclComm_t comm_, cudaStream_t stream, Call call) {
  Comm& comm = of(comm_);
  check_memory(comm, call);
  const std::string what = call.kind;
  // The number of its meeting: a new one for each execution, since a graph may replay it.
  auto number = std::make_shared<std::optional<std::uint64_t>>();
  return put(comm_, stream, what, [&comm, number, call] {
    Lock lock(mutex());
    if (comm.aborted) return true;
    if (!*number) *number = comm.next++;
    Meeting& meeting = comm.world->meetings[**number];
    meeting.calls.try_emplace(comm.rank, call);
    if (!meeting.is_over && std::ssize(meeting.calls) == comm.world->size) {
      compute(*comm.world, meeting);
      meeting.is_over = true;
    }
    if (meeting.is_over) number->reset();
    return meeting.is_over;
  });
}

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return f64;
    case ncclFloat32:
      return f32;
    case ncclBfloat16:
      return bf16;
    case ncclFloat16:
      return f16;
    case ncclInt64:
      return i64;
    case ncclInt32:
      return i32;
    case ncclInt8:
      return i8;
    default:
      return u8;
  }
}

ReduceOp op_of(ncclRedOp_t op) {
  switch (op) {
    case ncclAvg:
      return ReduceOp::avg;
    case ncclProd:
      return ReduceOp::prod;
    case ncclMin:
      return ReduceOp::min;
    case ncclMax:
      return ReduceOp::max;
    default:
      return ReduceOp::sum;
  }
}

ncclResult_t get_version(int* version) {
  *version = said_version;
  return ncclSuccess;
}
ncclResult_t get_unique_id(ncclUniqueId* id) {
  Lock lock(mutex());
  *id = {};
  const std::string text = concat("world ", ids++);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}
const char* error_string(ncclResult_t status) {
  return status == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "an error of the test's own NCCL";
}
const char* last_error(ncclComm_t) { return ""; }

ncclResult_t comm_init_rank(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                            ncclConfig_t* config) {
  Lock lock(mutex());
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;
  std::shared_ptr<World>& world = worlds[std::string(id.internal, sizeof id.internal)];
  if (world == nullptr) world = std::make_shared<World>(World{.size = size});
  if (world->size != size || rank < 0 || rank >= size) return ncclInvalidArgument;
  ++world->joined;
  ++calls_of_kind["comm_init_rank"];
  Comm* made = all_comms()
                   .emplace_back(new Comm{.world = world,
                                          .rank = rank,
                                          .device = current_device(),
                                          .maker = std::this_thread::get_id(),
                                          .max_blocks = config->maxCTAs})
                   .get();
  world->makers.push_back(made->maker);
  check_caller(*made, "comm_init_rank");
  comms[rank] = made;
  *comm = reinterpret_cast<ncclComm_t>(made);
  return ncclInProgress;
}
ncclResult_t comm_async_error(ncclComm_t comm, ncclResult_t* state) {
  Lock lock(mutex());
  *state = of(comm).error;
  if (*state != ncclSuccess) return ncclSuccess;
  if (of(comm).world->joined < of(comm).world->size || std::exchange(of(comm).busy, false))
    *state = ncclInProgress;
  return ncclSuccess;
}
ncclResult_t comm_finalize(ncclComm_t comm) {
  check_group(of(comm), "comm_finalize");
  of(comm).busy = true;
  return ncclInProgress;
}
ncclResult_t comm_abort(ncclComm_t comm) {
  Lock lock(mutex());
  of(comm).aborted = true;
  if (!of(comm).has_messages) {
    for (const auto& other : all_comms())
      if (other->has_messages && !other->aborted && other->device == of(comm).device)
        violation(concat("rank ", of(comm).rank, ": its messages end after its collectives"));
  }
  // From now on no rank reads its memory.
  World& world = *of(comm).world;
  for (auto& [number, meeting] : world.meetings) {
    if (!meeting.is_over) meeting.calls.erase(of(comm).rank);
  }
  for (auto& [ranks, parcels] : world.mail) {
    if (ranks.first == of(comm).rank) parcels.clear();
  }
  return ncclSuccess;
}

ncclResult_t all_reduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, {"all_reduce", send, recv, count, dtype_of(type), op_of(op), 0});
}
ncclResult_t reduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, {"reduce", send, recv, count, dtype_of(type), op_of(op), root});
}
ncclResult_t broadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                       int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {"broadcast", send, recv, count, dtype_of(type), ReduceOp::sum, root});
}
ncclResult_t all_gather(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {"all_gather", send, recv, count, dtype_of(type), ReduceOp::sum, 0});
}
ncclResult_t reduce_scatter(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const auto size = static_cast<std::size_t>(of(comm).world->size);
  return collective(comm, stream,
                    {"reduce_scatter", send, recv, count * size, dtype_of(type), op_of(op), 0});
}

ncclResult_t send(const void* data, std::size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm_, cudaStream_t stream) {
  Comm& comm = of(comm_);
  const std::size_t bytes = count * static_cast<std::size_t>(size_of(dtype_of(type)));
  auto taken = std::make_shared<std::shared_ptr<bool>>();
  return put(comm_, stream, "send", [=, &comm] {
    Lock lock(mutex());
    if (comm.aborted) return true;
    if (*taken == nullptr) {
      Parcel parcel{data, bytes};
      *taken = parcel.taken;
      comm.world->mail[{comm.rank, peer}].push_back(parcel);
    }
    if (!**taken) return false;
    taken->reset();
    return true;
  });
}
ncclResult_t recv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm_,
                  cudaStream_t stream) {
  Comm& comm = of(comm_);
  const std::size_t bytes = count * static_cast<std::size_t>(size_of(dtype_of(type)));
  return put(comm_, stream, "recv", [=, &comm] {
    Lock lock(mutex());
    if (comm.aborted) return true;
    auto& mail = comm.world->mail[{peer, comm.rank}];
    if (mail.empty()) return false;
    if (mail.front().bytes != bytes)
      violation(concat("rank ", comm.rank, " receives ", bytes, " bytes where rank ", peer,
                       " sends ", mail.front().bytes));
    std::memcpy(data, mail.front().data, std::min(bytes, mail.front().bytes));
    *mail.front().taken = true;
    mail.pop_front();
    return true;
  });
}
ncclResult_t group_start() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t group_end() {
  if (--group.depth > 0) return ncclSuccess;
  const int before = current_device();
  for (auto& [where, members] : std::exchange(group.work, {})) {
    host_cudart().set_device(where.first);
    auto left = std::make_shared<std::vector<std::function<bool()>>>(members);
    submit(where.second, [left, all = members] {
      std::erase_if(*left, [](auto& member) { return member(); });
      if (!left->empty()) return false;
      *left = all;  // a graph may replay it
      return true;
    });
  }
  host_cudart().set_device(before);
  return ncclInProgress;
}

}  // namespace

const dist::Nccl& host_nccl(int version) {
  said_version = version;
  static const dist::Nccl table{
      get_version,   get_unique_id,  error_string, last_error, comm_init_rank, comm_async_error,
      comm_finalize, comm_abort,     comm_abort,   all_reduce, reduce,         broadcast,
      all_gather,    reduce_scatter, send,         recv,       group_start,    group_end};
  return table;
}

std::vector<std::string> nccl_violations() {
  Lock lock(mutex());
  return std::exchange(violations, {});
}

int blocks_of_a_message() {
  Lock lock(mutex());
  return std::exchange(most_blocks, 0);
}

int nccl_calls(const std::string& kind) {
  Lock lock(mutex());
  return std::exchange(calls_of_kind[kind], 0);
}

void break_nccl(int rank) {
  Lock lock(mutex());
  comms.at(rank)->error = ncclRemoteError;
}

}  // namespace rondo::test

#endif  // RONDO_HAS_NCCL
