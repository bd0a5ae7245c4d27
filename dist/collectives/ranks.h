#pragma once
// Ranks: who the ranks of a communicator are, and what they have. Communicator adds what they do
// together.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/collectives/communicator_options.h"
#include "dist/failure/flight_recorder.h"
#include "dist/transports/transport.h"

namespace rondo::dist {

class CollectiveEngine;
class ComparedCollectives;
class DeviceCollectives;
class HostCollectives;
class Watch;
struct Collective;

class Ranks {
 public:
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  /// The number of rank r in the world, which messages use. In a group it differs from r.
  int rank_in_world(int r) const { return transport_->rank_in_world(r); }
  int rank_in_world() const { return rank_in_world(rank_); }
  std::vector<int> ranks_in_world() const;
  /// The ranks of a group, as text: "{1, 3}". Empty: all ranks of the world.
  const std::string& group() const { return group_; }
  const CommunicatorOptions& options() const;
  /// "mpi", "thread", "self".
  const char* backend() const { return transport_->name(); }
  Transport& transport() { return *transport_; }

  /// How many collectives have been called; it must be equal on all ranks. The caller that launches
  /// a captured graph must count its collectives itself.
  std::uint64_t collectives() const { return sequence_; }
  void set_collectives(std::uint64_t count) { sequence_ = count; }

  /// While a Label lives, messages, the flight recorder and traces add `text` to the names of
  /// collectives: "all_reduce 17 of bucket 2 of 8 (fc.weight … conv1.weight)".
  class Label {
   public:
    Label(Ranks& ranks, std::string text)
        : about_(ranks.about_), before_(std::exchange(ranks.about_, std::move(text))) {}
    ~Label() { about_ = std::move(before_); }
    Label(const Label&) = delete;
    Label& operator=(const Label&) = delete;

   private:
    std::string& about_;
    std::string before_;
  };
  /// The flight recorder: the last collectives of this communicator and of its groups.
  const std::shared_ptr<FlightRecorder>& recorder() const { return recorder_; }
  /// Tells which ranks have ended. Null without a side channel.
  const std::shared_ptr<Watch>& watch() const { return watch_; }

  /// Whether the ranks communicate through shared memory (Communicator::share_memory).
  bool shares_memory() const;
  /// CommunicatorOptions::node_of, or what share_memory determined; empty: unknown.
  const std::vector<int>& node_of() const { return options().node_of; }

  /// Runs the collectives of the CPU's tensors.
  HostCollectives& host() const { return *host_; }
  /// Runs the collectives of the GPU's tensors; null without a GPU.
  DeviceCollectives* gpu() const { return gpu_.get(); }
  /// From here on `gpu` runs those of its device's tensors (dist/launch/device.h calls this).
  void attach(std::shared_ptr<DeviceCollectives> gpu);
  /// How NCCL's collectives are compared, as text for people. Equal on all ranks.
  const char* comparison() const;

 protected:
  Ranks(std::shared_ptr<Transport> transport, CommunicatorOptions options,
        std::shared_ptr<FlightRecorder> recorder);
  ~Ranks();
  /// The engine of its tensors' device; null if nothing has to be sent. Throws DeviceError.
  CollectiveEngine* engine_of(const Collective& c) const;
  void set_watch(std::shared_ptr<Watch> watch);

  std::shared_ptr<Transport> transport_;
  int rank_, world_size_;
  std::string group_;
  std::string about_;           // the Label's text, or empty
  std::uint64_t sequence_ = 0;  // of the next collective; equal on all ranks
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<Watch> watch_;
  std::unique_ptr<HostCollectives> host_;
  std::shared_ptr<DeviceCollectives> gpu_;
  std::unique_ptr<ComparedCollectives> compared_;  // in front of gpu_, if that is NCCL
};

/// Throws CommError unless `rank` is one of them.
void check_rank(const Ranks& ranks, const char* what, int rank);

}  // namespace rondo::dist
