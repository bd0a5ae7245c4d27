#pragma once
// StagedCollectives: collectives on GPU tensors, staged through the host's memory.
//
// A collective copies its tensor into pinned memory, on a separate stream. After this copy, the
// communicator's own transport (MPI, threads) runs the collective there in the background, as for
// CPU tensors. Work::wait then copies the result back, on the current stream. The copies and the
// transfer overlap with what the GPU computes, but wait() blocks the host until the transfer is
// complete. If the MPI library says that it can read a GPU's memory itself, MPI_Iallreduce gets
// that memory.

#include "dist/collectives/device_collectives.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

class StagedCollectives final : public DeviceCollectives {
 public:
  /// `comm` must outlive it.
  StagedCollectives(Communicator& comm, Device device);

  Device device() const override { return device_; }
  const char* name() const override { return "staged"; }
  bool is_by_way_of_host() const override { return true; }
  Work all_reduce(DeviceCall call, const Tensor& x, ReduceOp op, AllReduce algorithm) override;
  Work broadcast(DeviceCall call, const Tensor& x, int root) override;
  Work reduce(DeviceCall call, const Tensor& x, int root, ReduceOp op) override;
  Work all_gather(DeviceCall call, const Tensor& out, const Tensor& x) override;
  Work reduce_scatter(DeviceCall call, const Tensor& out, const Tensor& x, ReduceOp op) override;
  Work exchange(DeviceCall call, const Tensors& from, const Tensors& to, int root) override;
  Work send(DeviceCall call, const Tensor& x, int peer, int tag) override;
  Work recv(DeviceCall call, const Tensor& x, int peer, int tag) override;
  void watch(std::string) override {}  // each collective blocks the host, so no graph can hold one

 private:
  struct FromHost {
    Tensor from, to;
  };
  friend class StagedWork;
  Tensor to_host(const Tensor& x);
  template <class Job>
  Work start(std::string what, Job job, Tensors sources, std::vector<FromHost> results);

  Communicator& comm_;
  Device device_;
  cuda::Stream stream_;
};

}  // namespace rondo::dist
