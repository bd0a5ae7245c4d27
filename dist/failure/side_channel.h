#pragma once
// SideChannel: detects that a rank has ended or no longer answers, and tells all ranks when a
// collective has failed on one of them.
//
// Note [Side channel]
// MPI does not report that a sender has died: a rank that waits for its message waits until the
// deadline. A socket does report it: when a process ends, for any reason, the kernel closes its
// sockets, and the other side reads end of file. A rank that ends normally says goodbye first.
//
// If a process is stopped, or its machine has lost power, no socket is closed. Therefore each rank
// sends a heartbeat every second, and a rank that has sent nothing for `timeout` counts as ended.
//
// Before a rank calls MPI_Finalize, it tells the others that it calls no more collectives.
//
// If a rank's launcher has been killed, no process is left that ends the rank, and Open MPI 5 takes
// a minute to notice. Therefore a rank counts as ended when the process that started it has ended.
//
// A collective that fails on one rank would leave the others waiting: they exchange messages with
// its neighbours, not with the rank itself. Therefore its error message is passed on ("rank 1 calls
// broadcast 17 where rank 2 calls all_reduce 17", "rank 3 has not called all_reduce 17"), and all
// ranks end with it. So is the error message of a rank that fails for another reason, unless the
// others soon fail by themselves (dist/launch/run.cpp).
//
// Rank r is connected to r ± 1, r ± 2, r ± 4, … (modulo the world's size). In worlds of up to five
// ranks every rank is connected to every other; in a world of 1,024 each rank has 19 connections. A
// rank that learns of a death, of the end of a program or of a failure tells its neighbours, and
// each of them tells its own neighbours, once. A message needs at most log2 N steps; a few missing
// ranks hardly lengthen the way. Only a rank that has lost all its neighbours hears nothing. All
// ranks have equally many connections.
//
// The ranks connect after MPI has started (dist/failure/side_connect.h). If they cannot connect,
// the deadline of a collective still applies.

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dist/failure/sockets.h"
#include "dist/failure/watch.h"
#include "tensor/home_process.h"

namespace rondo::dist {

class Communicator;
namespace side {
struct Link;
}

struct SideChannelOptions {
  /// A rank that has been silent for this long counts as ended.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// The time between two heartbeats.
  std::chrono::milliseconds beat = std::chrono::seconds(1);
  /// The process that started this one; when it ends, this rank ends. Determined before MPI starts.
  pid_t launcher = getppid();
  /// How long the constructor waits for the connections.
  std::chrono::milliseconds time_to_connect = std::chrono::seconds(10);

  /// The defaults, with the timeout RONDO_HEARTBEAT_TIMEOUT (seconds) if it is set. Throws
  /// CommError.
  static SideChannelOptions from_environment();
};

class SideChannel final : public Watch {
 public:
  /// Connects the ranks. Collective. Throws CommError.
  explicit SideChannel(Communicator& comm, const SideChannelOptions& options = {});
  /// Says goodbye, and waits at most 0.2 s until the neighbours have read it.
  ~SideChannel() override;
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Empty, or one of: "rank 1 (process 4242 on node7) has ended"; "rank 1 on node7 has not been
  /// heard of for 30 s"; "the connection to rank 1 on node7 is lost"; "the launcher of rank 0
  /// (process 4200 on node7) has ended". Returns the first that this rank learned of. For the first
  /// three, the machine is named only if it is another one.
  std::string ended() const override;
  std::string failed() const override;
  void tell(const std::string& why) override;
  bool tells_others() const override { return true; }
  void finalize() override;
  std::optional<std::chrono::steady_clock::time_point> finalized(int rank) const override;
  /// The neighbours to which this rank was connected when the constructor returned.
  const std::set<int>& connected() const { return connected_; }
  /// The ranks to which `rank` should be connected, in order.
  static std::vector<int> neighbours(int rank, int world_size);

 private:
  void run();
  void wait(std::chrono::steady_clock::time_point until);
  void read(side::Link& link);
  void handle(side::Link& link, char kind, const std::string& text);
  void lose(side::Link& link, Socket::Line line);
  void check_silence();
  void check_launcher();
  void pass_on();
  void say_to_all(char kind, const std::string& text = {});
  bool is_over();
  void note_finalized(int rank);

  int rank_;
  std::string name_;
  SideChannelOptions options_;
  Socket wake_;
  std::set<int> connected_;
  HomeProcess home_;

  // Used only by the thread:
  std::vector<side::Link> links_;
  std::chrono::steady_clock::time_point now_, next_beat_;
  std::optional<std::chrono::steady_clock::time_point>
      ends_at_;  // set once its last message has been queued
  std::set<int> told_finalized_;
  bool has_told_ended_ = false, has_told_failed_ = false;

  mutable std::mutex mutex_;
  bool stops_ = false;
  std::string ended_, failed_;
  std::map<int, std::chrono::steady_clock::time_point> finalized_;

  std::thread thread_;
};

}  // namespace rondo::dist
