#pragma once
// SideChannel: notices when a rank has ended or is not heard of any more, and tells all ranks when
// a collective has failed on one.
//
// Note [Side channel]
// MPI's messages say nothing about a sender that has died: a rank that waits for one waits until
// its deadline. A socket does: when a process ends, however it does, the system closes its sockets,
// and the other side reads the end of the file. A rank that ends in order says goodbye first. When
// a process is stopped or its machine has lost power, nothing is closed; so each rank sends a
// heartbeat every second, and a rank that has sent nothing for `timeout` is given up. Before, when
// it comes to MPI_Finalize, a rank tells the others that it calls no more collectives. A rank whose
// launcher has been killed has nobody left to end it, and Open MPI 5 takes a minute to notice; it
// counts as ended when the process that started it is gone.
//
// A collective that fails on some rank would keep the others waiting, since they exchange messages
// with its neighbours, not with it. So its sentence is passed on ("rank 1 calls broadcast 17 where
// rank 2 calls all_reduce 17", "rank 3 has not called all_reduce 17"), and all ranks end with it.
// So is the sentence of a rank that fails otherwise, if the others do not fail soon by themselves
// (dist/launch/run.cpp).
//
// Rank r is connected to r ± 1, r ± 2, r ± 4, … (modulo the world's size): in worlds of up to five
// ranks everybody to everybody, in one of 1,024 to 19 others. A rank that hears of a death, of
// the end of a program or of a failure tells its neighbours, and each of them tells its own, once:
// at most log2 N steps, whatever ranks are missing on the way, and no rank has more connections
// than the others.
//
// The ranks connect when MPI has started (dist/failure/side_connect.h). Where they cannot, the
// deadline of a collective remains.

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
  /// Of silence, after which a rank is given up.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// From one heartbeat to the next.
  std::chrono::milliseconds beat = std::chrono::seconds(1);
  /// The process that started this one, whose end ends this rank: asked before MPI starts.
  pid_t launcher = getppid();
  /// How long the constructor waits for the connections.
  std::chrono::milliseconds time_to_connect = std::chrono::seconds(10);

  /// With the timeout of RONDO_HEARTBEAT_TIMEOUT, seconds, if that is set. Throws CommError.
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

  /// Empty, or "rank 1 (process 4242 on node7) has ended", "rank 1 on node7 has not been heard of
  /// for 30 s", "what started rank 0 (process 4200 on node7), mpirun or its like, has ended":
  /// what was heard first. Of a rank the machine is named where it is another.
  std::string ended() const override;
  std::string failed() const override;
  void tell(const std::string& why) override;
  bool tells_others() const override { return true; }
  void leave() override;
  std::optional<std::chrono::steady_clock::time_point> left(int rank) const override;
  /// The neighbours that this rank was connected to when the constructor returned.
  const std::set<int>& connected() const { return connected_; }
  /// The ranks that `rank` is to be connected to, in order.
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
  void note_left(int rank);

  int rank_;
  std::string name_;
  SideChannelOptions options_;
  Socket wake_;
  std::set<int> connected_;
  HomeProcess home_;

  // Of the thread alone:
  std::vector<side::Link> links_;
  std::chrono::steady_clock::time_point now_, next_beat_;
  std::optional<std::chrono::steady_clock::time_point> ends_at_;  // once it has said its last
  std::set<int> told_left_;
  bool has_told_ended_ = false, has_told_failed_ = false;

  mutable std::mutex mutex_;
  bool stops_ = false;
  std::string ended_, failed_;
  std::map<int, std::chrono::steady_clock::time_point> left_;

  std::thread thread_;
};

}  // namespace rondo::dist
