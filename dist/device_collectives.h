#pragma once
// DeviceCollectives: what a Communicator hands the tensors of its GPU to. Implementations:
// dist/nccl (NCCL's own collectives, and rondo's ring over NCCL's messages) and dist/cuda (through
// pinned memory of the host, over whatever transport the communicator has).
//
// All of them put their work into a stream beside the current one: it begins after what the current
// stream holds now, and Work::wait makes the current stream wait for it. The host goes on.

#include <string>

#include "dist/communicator.h"

namespace rondo::dist {

class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  virtual Device device() const = 0;
  /// "nccl", "staged": for messages.
  virtual const char* name() const = 0;

  // `what` names the collective: "all_reduce 17". Arguments are checked already.
  virtual Work all_reduce(std::string what, const Tensor& x, ReduceOp op, AllReduce algorithm) = 0;
  virtual Work broadcast(std::string what, const Tensor& x, int root) = 0;
  virtual Work reduce(std::string what, const Tensor& x, int root, ReduceOp op) = 0;
  virtual Work all_gather(std::string what, const Tensor& out, const Tensor& x) = 0;
  virtual Work reduce_scatter(std::string what, const Tensor& out, const Tensor& x,
                              ReduceOp op) = 0;
  /// from[r] becomes rank r's to[rank]; undefined tensors are nothing.
  virtual Work exchange(std::string what, const Tensors& from, const Tensors& to) = 0;
  virtual Work send(std::string what, const Tensor& x, int peer, int tag) = 0;
  virtual Work recv(std::string what, const Tensor& x, int peer, int tag) = 0;

  /// A graph that holds collectives has been put into the current stream: looks after its end.
  virtual void watch(std::string what) = 0;
};

}  // namespace rondo::dist
