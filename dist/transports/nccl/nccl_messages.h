#pragma once
// NcclMessages: send and recv between two GPUs, beside the collectives.
//
// NCCL does what a communicator is asked for in one order: a receive whose message is not there
// keeps all that comes after it waiting, and two ranks that both receive before they send wait for
// ever. And it knows no tags. So the ranks meet on the host first, by the communicator's own
// transport, and NCCL is asked only for messages that both sides have posted:
//
//   sender                                   receiver
//   send_async ── its number, dtype, count, tag ──▶ a recv_async with this tag
//              ◀── "go ahead with number 7" ──
//   ncclSend ═════════════════════════════▶ ncclRecv     in the order of the go-aheads
//
// The messages from one rank to another are a channel with a communicator of two and a stream of
// its own. It is made when the first of them goes, so that pairs that never talk cost nothing; and
// since each channel has one order, the same on both sides, none waits for another. The data goes
// from GPU to GPU; only the meeting costs the host a round trip.
//
// The host's part is an Operation like any (dist/collectives/progress.h), driven in the background
// or by whoever waits: Work::wait keeps the host until NCCL has the message, which is as soon as
// both sides have posted it, and makes the current stream wait for the data.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "dist/transports/nccl/nccl_communicator.h"
#include "dist/transports/nccl/watchdog.h"

namespace rondo::dist {

struct NcclChannel;

class NcclMessages {
 public:
  /// `comm` must outlive every call, the watchdog all messages.
  NcclMessages(Communicator& comm, Device device, Watchdog& watchdog);
  ~NcclMessages();

  Work send(std::string what, const Tensor& x, int peer, int tag);
  Work recv(std::string what, const Tensor& x, int peer, int tag);

  /// What is wrong with one of the channels; empty: nothing.
  std::string error();
  void abort();
  /// Those of all channels.
  std::vector<NcclCommunicator*> communicators();

 private:
  Work post(std::string what, const Tensor& x, int peer, int tag, bool is_send);
  std::shared_ptr<NcclChannel> channel(int peer, bool is_send);

  Communicator& comm_;
  Device device_;
  Watchdog& watchdog_;
  std::mutex mutex_;  // of channels_: the watchdog looks at them, too
  std::map<std::pair<int, bool>, std::shared_ptr<NcclChannel>> channels_;
};

}  // namespace rondo::dist
