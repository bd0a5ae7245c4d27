#pragma once
// StagedCollectives: collectives on GPU tensors, staged through the host's memory.
//
// A collective copies its tensor into pinned memory, on a separate stream. After this copy, the
// communicator's own transport (MPI, threads) runs the collective there in the background, as for
// CPU tensors. Work::wait then copies the result back, on the current stream. The copies and the
// transfer overlap with what the GPU computes, but wait() blocks the host until the transfer is
// complete. If the MPI library says that it can read a GPU's memory itself, the blocking
// MPI_Allreduce (AllReduce::mpi_blocking) gets that memory.

#include "dist/collectives/device_collectives.h"
#include "dist/collectives/host_collectives.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

class StagedCollectives final : public DeviceCollectives {
 public:
  /// `host` must outlive it.
  StagedCollectives(HostCollectives& host, Device device);

  Device device() const override { return device_; }
  const char* name() const override { return "staged"; }
  bool is_by_way_of_host() const override { return true; }
  void check(const Collective& c) const override;
  Work start(Collective&& c, bool waits = false) override;
  void watch(std::string) override {}  // each collective blocks the host, so no graph can hold one

 private:
  struct FromHost {
    Tensor from, to;
  };
  friend class StagedWork;
  Tensor to_host(const Tensor& x);
  AllReduce on_host(AllReduce algorithm) const;
  bool is_direct(const Collective& c) const;
  Work start_directly(Collective&& c);

  HostCollectives& host_;
  Device device_;
  cuda::Stream stream_;
};

}  // namespace rondo::dist
