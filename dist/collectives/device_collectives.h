#pragma once
// DeviceCollectives: how a Communicator runs collectives on tensors of its GPU. Implementations:
// dist/transports/nccl (NCCL's own collectives, and rondo's ring over NCCL's messages) and
// dist/collectives/cuda (through pinned memory of the host, over the communicator's transport).
//
// All of them put their work into a separate stream. It begins after the work that the current
// stream holds now, and Work::wait makes the current stream wait for it. The host continues.

#include <string>

#include "dist/collectives/communicator.h"

namespace rondo::dist {

/// The name of a call, and of the data that it carries.
struct DeviceCall {
  std::string title;         // used in messages: "all_reduce 17 of bucket 2 of group {0, 1}"
  Signature signature = {};  // an empty name: the call is not counted as a collective
  std::string about = {};    // for the flight recorder: "bucket 2"
};

class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  virtual Device device() const = 0;
  /// "nccl", "staged": used in messages.
  virtual const char* name() const = 0;
  /// Whether they run as the communicator's collectives on the host. Those are counted, compared
  /// and recorded there.
  virtual bool is_by_way_of_host() const { return false; }

  // The arguments have already been checked.
  virtual Work all_reduce(DeviceCall call, const Tensor& x, ReduceOp op, AllReduce algorithm) = 0;
  virtual Work broadcast(DeviceCall call, const Tensor& x, int root) = 0;
  virtual Work reduce(DeviceCall call, const Tensor& x, int root, ReduceOp op) = 0;
  virtual Work all_gather(DeviceCall call, const Tensor& out, const Tensor& x) = 0;
  virtual Work reduce_scatter(DeviceCall call, const Tensor& out, const Tensor& x, ReduceOp op) = 0;
  /// from[r] becomes rank r's to[rank]; undefined tensors mean no data. root: the rank that sends
  /// or receives all data, or -1.
  virtual Work exchange(DeviceCall call, const Tensors& from, const Tensors& to, int root) = 0;
  virtual Work send(DeviceCall call, const Tensor& x, int peer, int tag) = 0;
  virtual Work recv(DeviceCall call, const Tensor& x, int peer, int tag) = 0;

  /// Watches a graph that holds collectives and has just been launched in the current stream, until
  /// it completes.
  virtual void watch(std::string what) = 0;
  /// Ends all operations under way; the next call on this rank throws CommError with this sentence.
  virtual void give_up(const std::string&) {}
  virtual bool has_failed() const { return false; }
};

}  // namespace rondo::dist
