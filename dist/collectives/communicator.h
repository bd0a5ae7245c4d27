#pragma once
// Communicator: the ranks of one world, and what they can do together.
//
//   auto comm = dist::init();                 // dist/launch/init.h; under mpirun, one rank of many
//   comm->all_reduce(gradient, ReduceOp::avg);
//   dist::Work work = comm->all_reduce_async(gradient);   // overlaps with the code that follows
//   ...
//   work.wait();
//
// Every collective must be called by all ranks, in the same order, with the same shapes. Tensors
// must be dense. They are on the CPU, or on the GPU that use_device (dist/launch/device.h) assigned
// to the rank. An asynchronous collective owns its tensors' memory until it is complete: the caller
// must neither write nor read it before `wait`. Collectives of one communicator run one after
// another, in the order in which they were issued (Note [Progress] in dist/collectives/progress.h).
//
// Thread safety: one thread issues collectives; any thread may wait for a `Work`.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dist/collectives/algorithms/ring_all_reduce.h"
#include "dist/collectives/all_reduce.h"
#include "dist/collectives/checked.h"
#include "dist/collectives/work.h"
#include "dist/failure/flight_recorder.h"
#include "tensor/tensor.h"

namespace rondo::dist {

struct CommunicatorOptions {
  AllReduce all_reduce = AllReduce::automatic;
  /// How long a collective may take, measured from when it begins. For a message the time is
  /// measured from the call of `wait`, since a receive may be posted long before its message is
  /// sent.
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);
  /// Whether a separate thread drives asynchronous work. Without it, only `wait` and `test` do.
  bool background_thread = true;
  /// The most bytes that a rank may send in one all-reduce by recursive doubling (log2 N times its
  /// data) or direct (N - 1 times its data).
  std::size_t small_bytes = 256 << 10;
  RingOptions ring = {};
  /// A number for each rank's node, for AllReduce::hierarchical: ranks that are near each other
  /// have equal numbers. Empty: share_memory determines which ranks are on one machine.
  std::vector<int> node_of = {};
  /// Whether Communicator::tune measures which all-reduce is fastest, where ranks share no memory
  /// (dist/collectives/tuner.h). `tuning_file` keeps the results; empty: they are kept for this run
  /// only.
  bool tune = false;
  std::string tuning_file = {};
  /// Whether Work::wait of NCCL's collectives blocks the host until all ranks are known to have
  /// called the same collective, so that no rank continues with invalid results
  /// (dist/collectives/compared.cpp). If false, the calls are compared as well, but while the host
  /// continues. RONDO_CHECK_COLLECTIVES=1 in the environment also enables it. It must be equal on
  /// all ranks.
  bool check_collectives = false;
};

struct DeviceCall;
class DeviceCollectives;
struct AllCallSummaries;
struct InPlace;
class NodeMemory;
class PeerMemory;
class Progress;
class Segment;
struct SideChannelOptions;
class Tuner;
class Watch;

class Communicator {
 public:
  explicit Communicator(
      std::shared_ptr<Transport> transport, CommunicatorOptions options = {},
      std::shared_ptr<FlightRecorder> recorder = std::make_shared<FlightRecorder>());
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  /// The number of rank r in the world, which messages use. In a group it differs from r.
  int rank_in_world(int r) const { return transport_->rank_in_world(r); }
  int rank_in_world() const { return rank_in_world(rank_); }
  std::vector<int> ranks_in_world() const;
  const CommunicatorOptions& options() const { return options_; }
  /// "mpi", "thread", "self".
  const char* backend() const;

  // Tensors must be dense (ShapeError otherwise). all_reduce, reduce and broadcast take a
  // channels_last tensor in its memory order, and throw CommError on all ranks if the layouts of
  // two ranks differ. All other collectives send elements in row-major order, and receive into
  // contiguous tensors only.

  /// x becomes the reduction of all ranks' x, bit-identical on all ranks.
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum);
  Work all_reduce_async(const Tensor& x, ReduceOp op = ReduceOp::sum);
  Work all_reduce_async(const Tensor& x, ReduceOp op, AllReduce algorithm);
  /// Root's x becomes the reduction of all ranks' x. The other ranks' x does not change.
  void reduce(const Tensor& x, int root = 0, ReduceOp op = ReduceOp::sum);
  Work reduce_async(const Tensor& x, int root = 0, ReduceOp op = ReduceOp::sum);
  /// x becomes root's x.
  void broadcast(const Tensor& x, int root = 0);
  Work broadcast_async(const Tensor& x, int root = 0);
  /// out becomes x of rank 0, x of rank 1, …; it has world_size() times as many elements as x.
  void all_gather(const Tensor& out, const Tensor& x);
  Work all_gather_async(const Tensor& out, const Tensor& x);
  /// out becomes the reduction of part rank() of all ranks' x. x has world_size() times as many
  /// elements as out, and does not change.
  void reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op = ReduceOp::sum);
  Work reduce_scatter_async(const Tensor& out, const Tensor& x, ReduceOp op = ReduceOp::sum);
  // The following take one tensor for each rank, of any shape and dtype, as long as sender and
  // receiver agree. Where only root has a list, the other ranks pass an empty one. A tensor that is
  // written must share memory with no other tensor in the lists (ShapeError), except this rank's
  // own part.

  /// parts[r] becomes rank r's x.
  void all_gather(const Tensors& parts, const Tensor& x);
  Work all_gather_async(const Tensors& parts, const Tensor& x);
  /// On root parts[r] becomes rank r's x.
  void gather(const Tensors& parts, const Tensor& x, int root = 0);
  Work gather_async(const Tensors& parts, const Tensor& x, int root = 0);
  /// x becomes root's parts[rank()].
  void scatter(const Tensor& x, const Tensors& parts, int root = 0);
  Work scatter_async(const Tensor& x, const Tensors& parts, int root = 0);
  /// from[r] becomes rank r's to[rank()].
  void all_to_all(const Tensors& from, const Tensors& to);
  Work all_to_all_async(const Tensors& from, const Tensors& to);

  /// Returns when all ranks have called it.
  void barrier();
  /// Point-to-point messages, independent of the collectives; 0 ≤ tag < 16000. Messages with one
  /// tag arrive in the order in which they were sent. The receiver throws CommError if the peer
  /// sends another dtype or number of elements. A receive whose message never arrives delays
  /// nothing else. Two ranks may both receive before they send if they use …_async. The tensors of
  /// both sides are on the CPU, or both are on GPUs.
  ///
  /// All this holds for GPUs as well. Over NCCL the ranks first synchronize on the host
  /// (dist/transports/nccl/nccl_messages.h): `wait` blocks the host until the peer has posted its
  /// side, and a message cannot be captured into a graph.
  void send(const Tensor& x, int peer, int tag = 0);
  void recv(const Tensor& x, int peer, int tag = 0);
  Work send_async(const Tensor& x, int peer, int tag = 0);
  Work recv_async(const Tensor& x, int peer, int tag = 0);

  /// Returns root's bytes on every rank.
  std::string broadcast_bytes(std::string bytes, int root = 0);
  /// Returns every rank's bytes, by rank.
  std::vector<std::string> all_gather_bytes(const std::string& bytes);
  /// Throws CommError, with the same sentence on all ranks, unless `value` is equal on all of them:
  /// "rank 1 has --batch 64 where rank 0 has --batch 128".
  void agree(const std::string& what, const std::string& value);
  /// As `agree`, for texts such as "--batch 64" that the ranks have already gathered. Texts are
  /// compared only up to their first zero byte; other data may follow it.
  void require_agreement(const std::vector<std::string>& texts) const;

  /// How many collectives have been called; it must be equal on all ranks. The caller that launches
  /// a captured graph must count its collectives itself.
  std::uint64_t collectives() const { return sequence_; }
  void set_collectives(std::uint64_t count) { sequence_ = count; }

  /// A communicator of some of the ranks, numbered in the order given; null on the other ranks. All
  /// ranks call it with the same list. The group has this communicator's options and GPU, and its
  /// collectives run concurrently with this one's. Throws CommError on all ranks if the list is
  /// empty, names a rank twice, names a rank that does not exist, or differs between ranks.
  std::shared_ptr<Communicator> new_group(const std::vector<int>& ranks);

  /// A communicator of the same ranks, whose collectives run concurrently with this one's.
  /// Collective.
  std::shared_ptr<Communicator> duplicate();

  /// Makes the ranks communicate through shared memory from here on, if all of them are on one
  /// machine; returns whether they do. dist::init calls it. Collective.
  bool share_memory();
  bool shares_memory() const { return memory_ != nullptr; }
  /// Opens sockets between the ranks that tell which ranks have ended
  /// (dist/failure/side_channel.h). dist::init calls it. Collective.
  void open_side_channel(const SideChannelOptions& options);
  /// Tells which ranks have ended. Null without a side channel.
  const std::shared_ptr<Watch>& watch() const { return watch_; }
  /// Memory for tensors that will be communicated, such as DDP's buckets. If the ranks share
  /// memory, all of them can read and write it, and an all-reduce of a tensor in it copies nothing.
  /// Shared memory is zeroed; other memory is uninitialised. Collective: all ranks ask for the same
  /// sizes, in the same order.
  StoragePtr allocate(std::size_t bytes, Device device = Device::cpu());
  /// A tensor in such memory; otherwise as Tensor::empty. Collective.
  Tensor empty(const Dims& sizes, TensorOptions options = {});
  /// Measures which all-reduce is the fastest for `bytes` bytes on the CPU. Does nothing unless
  /// CommunicatorOptions::tune is set, if the ranks share memory, or if the answer is already
  /// known. `automatic` then uses the fastest. `allocate` calls it for each size that it allocates.
  /// Collective.
  void tune(std::size_t bytes);
  Transport& transport() { return *transport_; }

  /// While a Label lives, messages, the flight recorder and traces add `text` to the names of
  /// collectives: "all_reduce 17 of bucket 2 of 8 (fc.weight … conv1.weight)".
  class Label {
   public:
    Label(Communicator& comm, std::string text)
        : about_(comm.about_), before_(std::exchange(comm.about_, std::move(text))) {}
    ~Label() { about_ = std::move(before_); }
    Label(const Label&) = delete;
    Label& operator=(const Label&) = delete;

   private:
    std::string& about_;
    std::string before_;
  };
  /// The flight recorder: the last collectives of this communicator and of its groups.
  const std::shared_ptr<FlightRecorder>& recorder() const { return recorder_; }
  /// CommunicatorOptions::node_of, or what share_memory determined; empty: unknown.
  const std::vector<int>& node_of() const { return options_.node_of; }

  /// From here on `gpu` handles tensors of its device (dist/launch/device.h calls this).
  void attach(std::shared_ptr<DeviceCollectives> gpu) { gpu_ = std::move(gpu); }
  /// The handler of the GPU's tensors, or null.
  DeviceCollectives* gpu() const { return gpu_.get(); }
  /// How NCCL's collectives are compared, as text for people. Equal on all ranks.
  const char* comparison() const;

 private:
  friend class NcclMessages;
  friend class StagedCollectives;
  struct Job {
    std::string name;
    std::function<bool()> ready = {};
    Begin begin;
    std::function<void()> finish = {};
    std::function<void(const std::string&)> failed = {};
    std::shared_ptr<void> keep = {};
    bool beside = false;
    Signature signature = {};  // of a collective
    bool is_checked = false;   // it checks by itself that all ranks call the same
    bool is_recorded = true;
  };

  Work start(Job job, bool wake = true);
  void run(Job job);
  AllReduce choose(const Tensor& x, ReduceOp op) const;
  std::unique_ptr<Operation> all_reduce_by(AllReduce algorithm, ChunkBuffer& scratch, void* data,
                                           std::int64_t count, DType dtype, ReduceOp op,
                                           const RingOptions& ring) const;
  bool all_reduce_now(const Tensor& x, ReduceOp op);
  Job all_reduce_job(const Tensor& x, ReduceOp op, AllReduce algorithm);
  Job broadcast_job(const Tensor& x, int root);
  Job broadcast_job(const Signature& signature, int root, std::shared_ptr<void> keep, void* data,
                    std::size_t bytes);
  Job all_gather_job(const Tensor& out, const Tensor& x);
  Job reduce_scatter_job(const Tensor& out, const Tensor& x, ReduceOp op);
  Job reduce_job(const Tensor& x, int root, ReduceOp op);
  Signature exchange_signature(const char* what, int root) const;
  Job exchange_job(const char* what, const Tensors& from, const Tensors& to, int root = -1);
  Work exchange_async(const char* what, const Tensors& from, const Tensors& to, int root = -1);
  // dist/collectives/compared.cpp
  Work compare(const Signature& signature, const std::shared_ptr<AllCallSummaries>& all);
  Work compared(Signature signature, const std::function<Work()>& put);
  void compare_beside(const Signature& signature);
  void finish_comparisons() noexcept;
  Work compared_exchange(const Signature& signature, const Tensors& from, const Tensors& to,
                         int root, const Tensor& any);
  void check_root_has_parts(const char* what, const Tensors& parts, int root) const;
  Job message_job(const Tensor& x, int peer, int tag, bool is_send);
  std::shared_ptr<Segment> share_segment(std::size_t bytes);
  bool can_read_peers(const PeerMemory& peers);
  void set_watch(std::shared_ptr<Watch> watch);
  void set_node_of(std::vector<int> node_of);
  InPlace in_place(const Signature& signature, const Tensor& x,
                   std::function<std::unique_ptr<Operation>()> otherwise) const;
  RingOptions next_ring(const Signature& signature);
  void check_peer(const char* what, int peer) const;
  void check_all_gather(const Tensor& out, const Tensor& x) const;
  void check_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) const;
  std::string check_message(const Tensor& x, int peer, int tag, bool is_send) const;
  bool is_on_gpu(const char* what, const Tensor& x) const;
  /// The signature of the next collective.
  Signature signature_of(const char* what, const Tensor& x, std::optional<ReduceOp> op = {},
                         int root = -1) const;
  std::string title(const char* what, std::uint64_t sequence) const;
  std::string title(const char* what) const;
  DeviceCall next_call(const Signature& signature);

  std::shared_ptr<Transport> transport_;
  CommunicatorOptions options_;
  int rank_, world_size_;
  std::string group_;  // " of group {1, 3}", used in messages
  std::string about_;  // a Label's text, which names the data of the next collectives, or empty
  std::shared_ptr<FlightRecorder> recorder_;
  std::uint64_t sequence_ = 0;  // of the next collective; equal on all ranks
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<NodeMemory> memory_;
  bool wants_memory_ = false;
  std::shared_ptr<Watch> watch_;
  std::unique_ptr<Tuner> tuner_;
  bool has_background_thread_ = false;
  Work last_comparison_;     // of the GPU's last collective; runs while the GPU works
  bool has_levels_ = false;  // set_node_of: sums of 16-bit floats should use `hierarchical`
  std::shared_ptr<DeviceCollectives> gpu_;
};

}  // namespace rondo::dist
