#include "dist/shared/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tensor/error.h"

namespace rondo::dist {

PeerWatch::PeerWatch(const std::vector<int>& ranks, const std::vector<pid_t>& processes) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i] == getpid()) continue;
    // A file that becomes readable when the process ends, though nobody may have waited for it yet.
    const auto file = static_cast<int>(syscall(SYS_pidfd_open, processes[i], 0));
    if (file >= 0 || errno == ESRCH)
      peers_.push_back({.rank = ranks[i], .process = processes[i], .file = file});
  }
}

PeerWatch::~PeerWatch() {
  for (const Peer& peer : peers_) {
    if (peer.file >= 0) close(peer.file);
  }
}

std::string PeerWatch::ended() const {
  std::vector<pollfd> files;
  for (const Peer& peer : peers_)
    files.push_back({.fd = peer.file, .events = POLLIN, .revents = 0});
  if (!files.empty()) poll(files.data(), files.size(), 0);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].file < 0 || (files[i].revents & POLLIN) != 0)
      return concat("rank ", peers_[i].rank, " (process ", peers_[i].process, ") has ended");
  }
  return {};
}

}  // namespace rondo::dist
