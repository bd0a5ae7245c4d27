#pragma once
// StagedCollectives: the tensors of a rank's GPU by way of the host.
//
// A collective copies its tensor into pinned memory, on a stream beside the current one; when that
// copy is done, the communicator's own transport (MPI, threads) does there what it does for the
// CPU's tensors, in the background; and Work::wait copies the result back, on the current stream.
// So the copies and the transfer overlap with what the GPU computes, but wait() keeps the host
// until the transfer is over. Where the MPI library says that it can read a GPU's memory by itself,
// MPI_Iallreduce is handed that memory.

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
  void watch(std::string) override {}  // the host waits in each of them, so that no graph holds one

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
