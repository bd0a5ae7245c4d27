#pragma once
// NcclCollectives: the tensors of one rank's GPU, over NCCL.
//
// Note [The stream of a collective]
// A collective is put into a stream of its own, of high priority, so that it overlaps with what the
// current stream computes meanwhile:
//
//   current stream   … gradient ─┬─ more of backward …            ┌─ optimizer
//                          event │                          event │
//   communication                └──── all-reduce ────────────────┘
//
// It waits for an event of the current stream, and Work::wait makes the current stream wait for an
// event after it. The host waits for nothing. A Work keeps its tensors until one of the two has
// come: memory that is given back earlier could be handed out to the current stream while the
// collective still uses it.
//
// Communicators are non-blocking: no call of NCCL's keeps the host, all are polled with a deadline,
// and a Watchdog aborts the communicator when a collective does not end.

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "dist/device_collectives.h"
#include "dist/nccl/nccl_api.h"
#include "dist/nccl/watchdog.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

class NcclCollectives final : public DeviceCollectives,
                              public std::enable_shared_from_this<NcclCollectives> {
 public:
  struct Options {
    int rank, world_size;
    Device device;
    ncclUniqueId id;  // the same on all ranks
    std::chrono::nanoseconds timeout;
    RingOptions ring = {};
  };
  /// Collective. Throws CommError when the ranks do not come together in time.
  explicit NcclCollectives(const Options& options);
  ~NcclCollectives() override;

  Device device() const override { return options_.device; }
  const char* name() const override { return "nccl"; }
  Work all_reduce(std::string what, const Tensor& x, ReduceOp op, AllReduce algorithm) override;
  Work broadcast(std::string what, const Tensor& x, int root) override;
  Work reduce(std::string what, const Tensor& x, int root, ReduceOp op) override;
  Work all_gather(std::string what, const Tensor& out, const Tensor& x) override;
  Work reduce_scatter(std::string what, const Tensor& out, const Tensor& x, ReduceOp op) override;
  Work exchange(std::string what, const Tensors& from, const Tensors& to) override;
  /// NCCL knows no tags: messages between two ranks arrive in the order in which they were sent.
  Work send(std::string what, const Tensor& x, int peer, int tag) override;
  Work recv(std::string what, const Tensor& x, int peer, int tag) override;
  void watch(std::string what) override;

  const cuda::Stream& stream() const { return stream_; }

 private:
  template <class Body>
  Work put(std::string what, std::vector<Tensor> tensors, Body body);
  void check(ncclResult_t status, const std::string& what);
  void settle(const std::string& what);
  void abort();
  std::string describe(ncclResult_t status) const;

  Options options_;
  const Nccl& nccl_;
  std::mutex mutex_;  // of comm_: the watchdog may take it away
  ncclComm_t comm_ = nullptr;
  cuda::Stream stream_;
  std::unique_ptr<Transport> transport_;  // for the ring
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<Watchdog> watchdog_;
};

/// NCCL's name of a dtype; booleans are bytes to it.
ncclDataType_t nccl_data_type(DType dtype);

/// A new id, for rank 0 to tell the others, as bytes.
std::string nccl_unique_id();
ncclUniqueId nccl_unique_id(const std::string& bytes);

}  // namespace rondo::dist
