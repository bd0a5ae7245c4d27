#pragma once
// SideChannel: notices when a rank on another machine has ended, or when it is not heard of any
// more, and tells all ranks when a collective has failed on one. Ranks that share memory need none:
// dist/shared/peer_watch.h.
//
// Note [Side channel]
// Messages of MPI say nothing about a sender that is no more: whoever waits for one waits until its
// deadline. A TCP connection does: when a process ends, however it does, its system closes its
// sockets, and the other side reads the end of the file. One that ends in order says "bye" first.
// When a process is stopped or its machine has lost power nothing is closed; so each rank sends a
// heartbeat a second, and one who has sent nothing for `timeout` is given up.
//
// A collective that fails on some rank would keep the others waiting: they exchange messages with
// its neighbours, not with it. So its sentence is passed on in the same way ("rank 1 calls
// broadcast 17 where rank 2 calls all_reduce 17", "rank 3 has not called all_reduce 17"), and all
// ranks end with it. So is that of a rank that fails otherwise, if the others do not do so soon by
// themselves (dist/run.cpp).
//
// Rank r is connected to r ± 1, r ± 2, r ± 4, … (modulo the world's size): in worlds of up to five
// ranks everybody to everybody, in one of 1,024 to 19 others. Who hears of a death first tells its
// neighbours, each of which tells its own, once: log2 N steps at most, whoever is missing on the
// way, and no rank has more connections than the others.
//
// A connection begins with a greeting that names both ranks and has the world's token, a number
// that rank 0 has drawn. It keeps out what calls by mistake (a port scanner, a rank of another
// world); it is no secret from whoever reads the network. Where no connection can be made,
// nobody is told: the deadline remains.

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dist/watch.h"

namespace rondo::dist {

class Communicator;

struct SideChannelOptions {
  /// Of silence, after which a rank is given up.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// From one heartbeat to the next.
  std::chrono::milliseconds beat = std::chrono::seconds(1);

  /// With the timeout of RONDO_HEARTBEAT_TIMEOUT, seconds, if that is set. Throws CommError.
  static SideChannelOptions from_environment();
};

class SideChannel final : public Watch {
 public:
  /// Collective; rank 0's options are everybody's. The connections come about afterwards, by a
  /// thread of its own.
  explicit SideChannel(Communicator& comm, const SideChannelOptions& options = {});
  /// Says bye; waits a fifth of a second at most for those who do not answer. Who knows of an end
  /// or a failure stays until all its neighbours have joined and can be told, but 0.7 s at most.
  ~SideChannel() override;
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Empty, or "rank 1 (process 4242 on node7) has ended", "rank 1 on node7 has not been heard of
  /// for 30 s": what was heard first.
  std::string ended() const override;
  std::string failed() const override;
  void tell(const std::string& why) override;
  bool tells_others() const override { return links_ != nullptr; }
  /// To how many ranks there is a connection.
  int connections() const;
  /// To whom `rank` is connected, in order.
  static std::vector<int> neighbours(int rank, int world_size);

 private:
  class Links;
  std::unique_ptr<Links> links_;  // null: nobody to talk to, or no means
  std::thread thread_;
};

}  // namespace rondo::dist
