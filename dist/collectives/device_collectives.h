#pragma once
// DeviceCollectives: what a Communicator hands the tensors of its GPU to. Implementations:
// dist/transports/nccl (NCCL's own collectives, and rondo's ring over NCCL's messages) and
// dist/collectives/cuda (through pinned memory of the host, over whatever transport the
// communicator has).
//
// All of them put their work into a stream beside the current one: it begins after what the current
// stream holds now, and Work::wait makes the current stream wait for it. The host goes on.

#include <string>

#include "dist/collectives/communicator.h"

namespace rondo::dist {

/// What a rank calls, and whose data it carries.
struct DeviceCall {
  std::string title;         // for messages: "all_reduce 17 of bucket 2 of group {0, 1}"
  Signature signature = {};  // without a name: nothing that the ranks count
  std::string about = {};    // for the flight recorder: "bucket 2"
};

class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  virtual Device device() const = 0;
  /// "nccl", "staged": for messages.
  virtual const char* name() const = 0;
  /// Whether they are the communicator's collectives on the host, which count, compare and record
  /// themselves.
  virtual bool is_by_way_of_host() const { return false; }

  // Arguments are checked already.
  virtual Work all_reduce(DeviceCall call, const Tensor& x, ReduceOp op, AllReduce algorithm) = 0;
  virtual Work broadcast(DeviceCall call, const Tensor& x, int root) = 0;
  virtual Work reduce(DeviceCall call, const Tensor& x, int root, ReduceOp op) = 0;
  virtual Work all_gather(DeviceCall call, const Tensor& out, const Tensor& x) = 0;
  virtual Work reduce_scatter(DeviceCall call, const Tensor& out, const Tensor& x, ReduceOp op) = 0;
  /// from[r] becomes rank r's to[rank]; undefined tensors are nothing. root: of whom or to whom all
  /// is, or -1.
  virtual Work exchange(DeviceCall call, const Tensors& from, const Tensors& to, int root) = 0;
  virtual Work send(DeviceCall call, const Tensor& x, int peer, int tag) = 0;
  virtual Work recv(DeviceCall call, const Tensor& x, int peer, int tag) = 0;

  /// A graph that holds collectives has been put into the current stream: looks after its end.
  virtual void watch(std::string what) = 0;
  /// Ends all that is under way; the next call on this rank throws CommError with this sentence.
  virtual void give_up(const std::string&) {}
  virtual bool has_failed() const { return false; }
};

}  // namespace rondo::dist
