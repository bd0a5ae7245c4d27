#pragma once
// PeerWatch: notices at once when another rank's process of this machine has ended, however it did
// (kill -9, out of memory, exit), where those who wait for it would notice at their deadline.

#include <sys/types.h>

#include <string>
#include <vector>

#include "dist/watch.h"

namespace rondo::dist {

class PeerWatch final : public Watch {
 public:
  /// Watches processes[i], rank ranks[i] of the world, but for this one's. Where the system cannot
  /// (Linux before 5.3), none.
  PeerWatch(const std::vector<int>& ranks, const std::vector<pid_t>& processes);
  ~PeerWatch() override;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Empty, or "rank 1 (process 4242) has ended". One system call.
  std::string ended() const override;

 private:
  struct Peer {
    int rank;
    pid_t process;
    int file;  // -1: it had ended before
  };
  std::vector<Peer> peers_;
};

}  // namespace rondo::dist
