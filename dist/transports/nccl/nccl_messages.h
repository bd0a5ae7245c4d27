#pragma once
// NcclMessages: send and recv between two GPUs, independent of the collectives.
//
// NCCL runs the operations of a communicator in one order. A receive whose message has not been
// sent would delay everything after it, and two ranks that both receive before they send would wait
// forever. NCCL also has no tags. Therefore the ranks first synchronize on the host, over the
// communicator's own transport, and NCCL gets only messages that both sides have posted:
//
//   sender                                   receiver
//   send_async ── its number, dtype, count, tag ──▶ a recv_async with this tag
//              ◀── "go ahead with number 7" ──
//   ncclSend ═════════════════════════════▶ ncclRecv     in the order of the go-aheads
//
// The messages from one rank to another form a channel, with its own communicator of two ranks and
// its own stream. It is created for the first message, so pairs that exchange nothing cost nothing.
// Each channel has one order, equal on both sides, and no channel waits for another. The data goes
// from GPU to GPU; only the synchronization costs a round trip between the hosts.
//
// A message's kernel occupies the GPU until its peer's kernel runs, too. So that the kernels of
// collectives find room next to them, all channels of one communicator together get at most
// `blocks_of_messages` blocks, or one each if there are more channels. With messages of several
// groups at once, or with messages to dozens of ranks, the GPU may still be full.
//
// The host's part is an Operation (dist/collectives/progress.h), driven in the background or by the
// thread that waits. Work::wait blocks the host until both sides have posted the message and NCCL
// has it; it then makes the current stream wait for the data.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dist/collectives/host_collectives.h"
#include "dist/transports/nccl/nccl_communicator.h"
#include "dist/transports/nccl/watchdog.h"

namespace rondo::dist {

struct NcclChannel;

class NcclMessages {
 public:
  /// `host` must outlive every call, `watchdog` all messages.
  NcclMessages(HostCollectives& host, Device device, Watchdog& watchdog);
  ~NcclMessages();

  /// A send or a recv.
  Work post(const Collective& c);

  /// NCCL's error on one of the channels; empty: no error.
  std::string error();
  void abort();
  /// The communicators of all channels.
  std::vector<NcclCommunicator*> communicators();

 private:
  int rank_in_world() const;
  std::shared_ptr<NcclChannel> channel(int peer, bool is_send);

  HostCollectives& host_;
  Device device_;
  Watchdog& watchdog_;
  std::mutex mutex_;  // of channels_, which the watchdog reads, too
  std::map<std::pair<int, bool>, std::shared_ptr<NcclChannel>> channels_;
};

}  // namespace rondo::dist
