#pragma once
// NcclCollectives: collectives on the tensors of one rank's GPU, through NCCL.
//
// Note [The stream of a collective]
// A collective runs in a separate stream with high priority, so that it overlaps with what the
// current stream computes:
//
//   current stream   … gradient ─┬─ more of backward …            ┌─ optimizer
//                          event │                          event │
//   communication                └──── all-reduce ────────────────┘
//
// The communication stream waits for an event of the current stream, and Work::wait makes the
// current stream wait for an event after the collective. The host never waits. A Work keeps its
// tensors alive until it has been waited for or the collective is complete: otherwise their memory
// could be given to the current stream while the collective still uses it.
//
// All communicators of a rank use this one stream (NcclQueue), and put one collective after another
// into it. NCCL's kernels occupy the GPU while they wait for the other ranks. If they ran in
// several streams, two ranks could start collectives of two communicators in different orders, and
// each would wait for a kernel that finds no room on the other's GPU. Therefore all ranks must
// issue the collectives of all communicators in the same order, as with PyTorch. A captured graph
// runs in the current stream: wait for all collectives before it is launched.
//
// NCCL is polled with a deadline, and a Watchdog aborts the communicator if a collective does not
// end. Messages do not use this stream: see nccl_messages.h.

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "dist/collectives/device_collectives.h"
#include "dist/collectives/ranks.h"
#include "dist/transports/nccl/device_clock.h"
#include "dist/transports/nccl/nccl_api.h"
#include "dist/transports/nccl/nccl_communicator.h"
#include "dist/transports/nccl/nccl_messages.h"
#include "dist/transports/nccl/watchdog.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

class StreamWork;

/// The stream of a rank's collectives on one GPU. Hold the mutex from the first event of a
/// collective to its last.
struct NcclQueue {
  explicit NcclQueue(int device) : stream(cuda::Stream::create(device, /*high_priority=*/true)) {}
  cuda::Stream stream;
  std::mutex mutex;
};

class NcclCollectives final : public DeviceCollectives,
                              public std::enable_shared_from_this<NcclCollectives> {
 public:
  /// `id` must be equal on all ranks. `ranks` must outlive every call. Collective. Throws CommError
  /// if the ranks do not connect in time.
  NcclCollectives(const Ranks& ranks, Device device, const ncclUniqueId& id);
  ~NcclCollectives() override;

  Device device() const override { return device_; }
  const char* name() const override { return "nccl"; }
  Work start(Collective&& c, bool waits = false) override;
  void watch(std::string what) override;
  void give_up(const std::string& why) override { watchdog_->give_up(why); }
  bool has_failed() const override { return watchdog_->failure()->is_set(); }

  const cuda::Stream& stream() const { return stream_; }

 private:
  Work put(const Collective& c);
  void call(const Collective& c, const std::string& title);
  void all_reduce(const Collective& c, const std::string& title);
  void exchange(const Collective& c, const std::string& title);
  void look_after(std::string title, std::optional<std::uint64_t> number,
                  const std::shared_ptr<StreamWork>& work);
  void check(ncclResult_t status, const std::string& what) { comm_.check(status, what); }
  void settle(const std::string& what);
  ncclComm_t handle() const { return comm_.get("NCCL"); }  // inside put

  int rank_, world_size_;
  Device device_;
  std::chrono::nanoseconds timeout_;
  RingOptions ring_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<Watch> watch_;
  const Nccl& nccl_;
  NcclCommunicator comm_;
  std::shared_ptr<NcclQueue> queue_;
  cuda::Stream stream_;                   // the queue's
  std::shared_ptr<DeviceClock> clock_;    // also used by the watchdog
  std::unique_ptr<Transport> transport_;  // for the ring
  std::unique_ptr<ChunkBuffer> scratch_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<NcclMessages> messages_;
  std::uint64_t replays_ = 0;
};

/// NCCL's name of a dtype; booleans are sent as bytes.
ncclDataType_t nccl_data_type(DType dtype);

/// A new id as bytes, which rank 0 sends to the other ranks.
std::string nccl_unique_id();
ncclUniqueId nccl_unique_id(const std::string& bytes);

}  // namespace rondo::dist
