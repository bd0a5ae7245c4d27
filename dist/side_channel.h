#pragma once
// SideChannel: notices when a rank has ended, or when it is not heard of any more, and tells all
// ranks when a collective has failed on one: from before MPI starts until after it has ended.
//
// Note [Side channel]
// Messages of MPI say nothing about a sender that is no more: whoever waits for one waits until its
// deadline, and in MPI_Init, which nothing interrupts, for ever. A socket does: when a process
// ends, however it does, its system closes its sockets, and the other side reads the end of the
// file. One that ends in order says "bye" first. When a process is stopped or its machine has lost
// power nothing is closed; so each rank sends a heartbeat a second, and one who has sent nothing
// for `timeout` is given up.
//
// The end of a program takes two steps. First a rank says that it is leaving: it will call no more
// collectives, and who waits for it in one waits in vain. Its neighbours pass that on. Then, when
// MPI has ended too, it says bye, and stays until its neighbours have said so: one that is stopped
// on its last steps, when the others need nothing more from it, would keep the launcher waiting for
// ever, and nobody else knows.
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
// How ranks find each other before MPI could tell them where they are: by names that follow from
// what the launcher calls the job (Launcher::job). In a machine rank r's Unix domain socket is
// called rondo-<job>-<r>. Between machines, of which PMIx knows the names, it is TCP on one of four
// ports, from 10,000 to 29,999, that follow from job, secret and r. When MPI has started, `meet`
// tells everybody's true addresses, for those who were not to be found so (a port was taken, a name
// is not resolved, no PMIx).
//
// A connection begins with a greeting that names both ranks and has a token. In a machine that is
// the job's name: the system says itself whether the other process is of the same user. Between
// machines it is the job's secret (Launcher::secret), without which nobody is called or let in
// before `meet`, and then a number that rank 0 has drawn. It keeps out strangers who scan or guess;
// it is no secret from whoever reads the network. Where no connection can be made, nobody is told:
// the deadline remains.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dist/watch.h"
#include "tensor/home_process.h"

namespace rondo::dist {

class Communicator;
struct Launcher;
namespace side {
class Links;
}

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
  /// Before MPI has started, where `job` has a name: the connections come about by a thread of its
  /// own while others start. `machines`: by rank, the names of their machines, or nothing.
  SideChannel(const Launcher& job, const std::vector<std::string>& machines,
              const SideChannelOptions& options = {});
  /// Afterwards. Collective.
  explicit SideChannel(Communicator& comm, const SideChannelOptions& options = {});
  /// Tells all ranks where all are. Collective.
  void meet(Communicator& comm);
  /// Says bye; waits a fifth of a second at most for those who do not answer, unless `part` has
  /// waited for them. Who knows of an end or a failure stays until all its neighbours have joined
  /// and can be told, but 0.7 s at most.
  ~SideChannel() override;
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Empty, or "rank 1 (process 4242 on node7) has ended", "rank 1 on node7 has not been heard of
  /// for 30 s": what was heard first. The machine is named where it is another.
  std::string ended() const override;
  std::string failed() const override;
  void tell(const std::string& why) override;
  bool tells_others() const override { return links_ != nullptr; }
  /// Empty, or "nothing has been heard of rank 2": neighbours who would be connected by now if they
  /// had come. Before `meet` alone.
  std::string absent() const override;
  void leave() override;
  std::optional<std::chrono::steady_clock::time_point> left(int rank) const override;
  std::string part(const Warn& warn = {}) override;
  /// To how many ranks there is a connection, and neither side has said bye.
  int connections() const;
  /// Where `rank` of a job listens before MPI has started: on the first of them that is free.
  static std::vector<int> ports_of(const Launcher& job, int rank);
  /// To whom `rank` is connected, in order.
  static std::vector<int> neighbours(int rank, int world_size);

 private:
  void begin(const Launcher& job, const std::vector<std::string>& machines,
             const SideChannelOptions& options);

  std::string place_;                   // of this rank, for `meet`
  std::unique_ptr<side::Links> links_;  // null: nobody to talk to, or no means
  std::thread thread_;
  HomeProcess home_;
};

}  // namespace rondo::dist
