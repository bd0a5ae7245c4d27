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
// must be dense (ShapeError). They are on the CPU, or on the GPU that use_device
// (dist/launch/device.h) assigned to the rank. An asynchronous collective owns its tensors' memory
// until it is complete: the caller must neither write nor read it before `wait`. Collectives of one
// communicator run one after another, in the order in which they were issued (Note [Progress] in
// dist/collectives/progress.h). One thread issues collectives; any thread may wait for a `Work`.

#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/ranks.h"
#include "dist/collectives/work.h"
#include "tensor/tensor.h"

namespace rondo::dist {

struct SideChannelOptions;

class Communicator : public Ranks {
 public:
  explicit Communicator(
      std::shared_ptr<Transport> transport, CommunicatorOptions options = {},
      std::shared_ptr<FlightRecorder> recorder = std::make_shared<FlightRecorder>());

  // These three take a channels_last tensor in its memory order, and throw CommError on all ranks
  // if the layouts of two ranks differ. All others send elements in row-major order, and receive
  // into contiguous tensors only.

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

  // These take one tensor for each rank, of any shape and dtype, as long as sender and receiver
  // agree. Where only root has a list, the other ranks pass an empty one. A tensor that is written
  // must share memory with no other tensor in the lists (ShapeError), except this rank's own part.

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
  /// nothing else. The tensors of both sides are on the CPU, or both are on GPUs; over NCCL `wait`
  /// blocks the host until the peer has posted its side (dist/transports/nccl/nccl_messages.h).
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

  /// A communicator of some of the ranks, numbered in the order given; null on the other ranks. All
  /// ranks call it with the same list. The group has this communicator's options and GPU, and its
  /// collectives run concurrently with this one's; over NCCL, in the order in which this rank
  /// issues both (dist/transports/nccl/nccl_collectives.h). Throws CommError on all ranks if the
  /// list is empty, names a rank twice, names a rank that does not exist, or differs between ranks.
  std::shared_ptr<Communicator> new_group(const std::vector<int>& ranks);
  /// A group of all ranks.
  std::shared_ptr<Communicator> duplicate();

  /// Memory for tensors that will be communicated, such as DDP's buckets. If the ranks share
  /// memory, all of them can read and write it, and an all-reduce of a tensor in it copies nothing.
  /// Shared memory is zeroed; other memory is uninitialised. Collective: all ranks ask for the same
  /// sizes, in the same order.
  StoragePtr allocate(std::size_t bytes, Device device = Device::cpu());
  /// A tensor in such memory; otherwise as Tensor::empty. Collective.
  Tensor empty(const Dims& sizes, TensorOptions options = {});

  /// Makes the ranks communicate through shared memory from here on, if all of them are on one
  /// machine; returns whether they do. dist::init calls it. Collective.
  bool share_memory();
  /// Opens sockets between the ranks that tell which ranks have ended
  /// (dist/failure/side_channel.h). dist::init calls it. Collective.
  void open_side_channel(const SideChannelOptions& options);
  /// Measures which all-reduce is the fastest for `bytes` bytes on the CPU, and is used by
  /// `automatic` from here on. Does nothing unless CommunicatorOptions::tune is set, if the ranks
  /// share memory, or if it is known. `allocate` calls it. Collective.
  void tune(std::size_t bytes);

 private:
  Work start(Collective&& collective, bool waits = false);
  void run(Collective&& collective);

  bool wants_memory_ = false;  // share_memory was called: groups may be able to share memory
};

}  // namespace rondo::dist
